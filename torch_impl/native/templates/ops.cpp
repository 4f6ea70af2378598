// ${generated_comment}
//
// What PyTorch's build makes of the two files, in one: the operators and their kernels (RegisterSchema.cpp, Operators.cpp,
// RegisterCompositeExplicitAutograd.cpp, ...), the backward nodes (Functions.h, Functions.cpp), the autograd kernels
// (VariableType.cpp) and the nodes' Python classes (python_functions.cpp).

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/FunctionsManual.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include "ops.h"
${includes}

// The operators

${schema_registrations}

namespace ${namespace} {

${operator_definitions}

namespace redispatch {

${redispatch_definitions}

} // namespace redispatch

// Their kernels, as the dispatch sections say
namespace {

${kernel_registrations}

} // namespace

// The autograd nodes. Not in torch::autograd::generated: an operator may have the name of one of PyTorch's.
namespace generated {

using namespace at;
using namespace torch::autograd;
using namespace torch::autograd::generated;
using namespace torch::autograd::generated::details;
using torch::autograd::CompiledNodeArgs;
using torch::dynamo::autograd::PackedArgs;

${autograd_function_declarations}

namespace {

std::string qualified(const std::string& name) {
  return "${namespace}_" + name;
}

variable_list compiled_autograd_apply_functional(
    const PackedArgs& packed_args, const edge_list& next_edges, SwapSavedVariables& saved, const variable_list& grads,
    const std::string& name) {
  auto output_metadata = torch::dynamo::autograd::IValuePacker<std::vector<std::optional<InputMetadata>>>::pack(
      torch::dynamo::autograd::get_input_metadata(next_edges));
  const auto& pyinterface = torch::dynamo::autograd::getPyCompilerInterface();
  return pyinterface->call_function(
      saved.get_py_compiler(), "apply_functional", qualified(name), grads, packed_args.vec(), output_metadata);
}

} // namespace

${autograd_function_definitions}

// The autograd kernels

namespace VariableType {
namespace {

// PyTorch's own are not exported.
[[maybe_unused]] const Tensor& unpack(const Tensor& t, const char* name, int pos) {
  TORCH_CHECK(t.defined(), "Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument #", pos, " '", name, "'");
  return t;
}

[[maybe_unused]] Tensor unpack_opt(const Tensor& t, const char* name, int pos) {
  return t.defined() ? unpack(t, name, pos) : Tensor();
}

[[maybe_unused]] std::vector<Tensor> unpack(const ITensorListRef& tl, const char* name, int pos) {
  std::vector<Tensor> tensors;
  for (const auto& t : tl) {
    tensors.push_back(unpack(t, name, pos));
  }
  return tensors;
}

${type_derived_method_definitions}

} // namespace
} // namespace VariableType

namespace {

TORCH_LIBRARY_IMPL(${namespace}, Autograd, m) {
  ${wrapper_registrations}
}

// The nodes' Python classes, with their _saved_* attributes

template <typename C>
void addClass(PyObject* /*module*/, PyTypeObject& type, const char* name, PyGetSetDef* properties) {
  _initFunctionPyTypeObject(type, name, properties, nullptr);
  Py_INCREF(&type);
  registerCppFunction(typeid(C), &type);
}

${py_function_props_and_getters}

[[maybe_unused]] const bool initialized = [] {
  pybind11::gil_scoped_acquire gil;
  [[maybe_unused]] PyObject* module = nullptr;
  ${py_function_initializers}
  return true;
}();

} // namespace
} // namespace generated
} // namespace ${namespace}
