// The PyTorch device "pretend": two devices whose memory is that of the host, readable while one of their kernels runs.
//
// Operators compute on the CPU, from copies; but a tensor's pages are PROT_NONE unless a copy is under way, so that
// whoever reads device memory on the host ends by a segmentation fault, as with a GPU. What PyTorch asks of a device is
// in ATen/detail/PrivateUse1HooksInterface.h and c10/core/impl/DeviceGuardImplInterface.h.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

using at::IntArrayRef;
using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;

constexpr DeviceType kPretend = DeviceType::PrivateUse1;
constexpr DeviceIndex kDevices = 2;
constexpr size_t kMemory = size_t{1} << 30;  // bytes of both together

// ---- Memory ----

struct Block {
  size_t bytes;
  int open;  // kernels that may touch it now, in any thread
};

std::mutex mutex;
std::map<char*, Block> blocks;  // by their first byte
std::atomic<int64_t> allocated{0}, to_host{0}, to_device{0};
thread_local DeviceIndex current = 0;
thread_local int kernels = 0;  // that run in this thread: their own copies are no transfers of anybody's

size_t pages(size_t bytes) {
  const size_t page = ::sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

std::map<char*, Block>::iterator block_of(const void* address) {
  auto found = blocks.upper_bound(const_cast<char*>(static_cast<const char*>(address)));
  return found == blocks.begin() ? blocks.end() : std::prev(found);
}

// The memory around an address may be touched in this scope.
class Opened {
 public:
  explicit Opened(const void* address) : address_(address) { turn(+1, PROT_READ | PROT_WRITE); }
  ~Opened() { turn(-1, PROT_NONE); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  void turn(int by, int protection) {
    if (address_ == nullptr) return;
    std::lock_guard<std::mutex> lock(mutex);
    auto found = block_of(address_);
    if (found == blocks.end()) return;
    auto& [start, block] = *found;
    const bool first = by > 0 && block.open == 0, last = by < 0 && block.open == 1;
    block.open += by;
    if (first || last) TORCH_INTERNAL_ASSERT(::mprotect(start, pages(block.bytes), protection) == 0);
  }

  const void* address_;
};

void release(void* data) {
  if (data == nullptr) return;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = blocks.find(static_cast<char*>(data));
  allocated -= static_cast<int64_t>(found->second.bytes);
  ::munmap(data, pages(found->second.bytes));
  blocks.erase(found);
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const Device device(kPretend, current);
    if (bytes == 0) return {nullptr, nullptr, &release, device};
    const bool room = bytes <= kMemory - std::min<size_t>(allocated, kMemory);
    void* data = room ? ::mmap(nullptr, pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    TORCH_CHECK_WITH(OutOfMemoryError, data != MAP_FAILED, "pretend: out of memory, ", bytes, " bytes are too many");
    std::lock_guard<std::mutex> lock(mutex);
    blocks[static_cast<char*>(data)] = {bytes, 0};
    allocated += static_cast<int64_t>(bytes);
    return {data, data, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    Opened a(to), b(from);
    std::memcpy(to, from, bytes);
  }
};

Allocator allocator;
REGISTER_ALLOCATOR(kPretend, &allocator);

void grow(c10::StorageImpl* storage, size_t bytes) {
  c10::DeviceGuard guard(storage->device());
  c10::DataPtr fresh = allocator.allocate(bytes);
  if (storage->nbytes() > 0 && bytes > 0) {
    allocator.copy_data(fresh.get(), storage->data(), std::min(bytes, storage->nbytes()));
  }
  storage->set_data_ptr_noswap(std::move(fresh));
  storage->set_nbytes(bytes);
}

// ---- What PyTorch asks of a device ----

struct Guard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return kPretend; }
  Device getDevice() const override { return {kPretend, current}; }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }
  void setDevice(Device device) const override {
    if (!device.has_index()) return;
    TORCH_CHECK(device.index() < kDevices, "pretend: invalid device ordinal ", static_cast<int>(device.index()));
    current = device.index();
  }
  void uncheckedSetDevice(Device device) const noexcept override { current = device.index(); }
  c10::Stream getDefaultStream(Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getStream(Device device) const override { return getDefaultStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return kDevices; }
  DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(DeviceIndex device) const override { current = device; }
  DeviceIndex exchangeDevice(DeviceIndex device) const override { return std::exchange(current, device); }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return exchangeDevice(device); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return at::getCPUAllocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    grow(storage.unsafeGetStorageImpl(), bytes);
  }
};

Hooks hooks;
[[maybe_unused]] const int registered = (at::RegisterPrivateUse1HooksInterface(&hooks), 0);

// ---- Tensors ----

at::ScalarType known(std::optional<at::ScalarType> dtype) {
  static const bool without_double = std::getenv("PRETEND_WITHOUT_FLOAT64") != nullptr;
  const at::ScalarType found = c10::dtype_or_default(dtype);
  const bool is_double = found == at::kDouble || found == at::kComplexDouble;
  TORCH_CHECK_TYPE(!(without_double && is_double), "the pretend device has no ", found);
  return found;
}

Tensor empty(
    IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<Device> device,
    std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(
      size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), known(dtype), format);
}

Tensor empty_strided(
    IntArrayRef size, IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<Device> device, std::optional<bool>) {
  c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(
      size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), known(dtype));
}

void fit(const Tensor& x) {
  const size_t needed = at::detail::computeStorageNbytes(x.sizes(), x.strides(), x.itemsize(), x.storage_offset());
  auto* storage = x.storage().unsafeGetStorageImpl();
  if (needed > storage->nbytes()) grow(storage, needed);
}

const Tensor& resize(const Tensor& self, IntArrayRef size, std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (impl->sizes() != size) impl->set_sizes_contiguous(size);
  if (format.has_value()) impl->empty_tensor_restride(*format);
  fit(self);
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage storage, int64_t offset, IntArrayRef size, IntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset);
  if (stride.data() == nullptr) {
    impl->set_sizes_contiguous(size);
  } else {
    impl->set_sizes_and_strides(size, stride);
  }
  fit(self);
  return self;
}

Tensor& set_whole_storage(Tensor& self, at::Storage storage) {
  const auto count = static_cast<int64_t>(storage.nbytes() / self.itemsize());
  return set_storage(self, std::move(storage), 0, {count}, {});
}

Tensor& set_nothing(Tensor& self) {
  return set_storage(self, c10::Storage(c10::Storage::use_byte_size_t(), 0, &allocator, true), 0, {0}, {});
}

// ---- Copies: all that touches the memory ----

const void* address_of(const Tensor& x) { return x.device().type() == kPretend ? x.storage().data() : nullptr; }

// The same memory as a tensor of the CPU; to be used while it is opened.
Tensor on_host(const Tensor& x) {
  if (x.device().type() != kPretend) return x;
  const auto count = static_cast<int64_t>(x.storage().nbytes() / x.itemsize());
  if (count == 0) return at::empty_strided(x.sizes(), x.strides(), x.options().device(at::kCPU));
  Tensor flat = at::from_blob(const_cast<void*>(x.storage().data()), {count}, x.options().device(at::kCPU));
  Tensor same = flat.as_strided(x.sizes(), x.strides(), x.storage_offset());
  same._set_conj(x.is_conj());
  same._set_neg(x.is_neg());
  return same;
}

void count(bool from_device, bool to_device_) {
  if (kernels > 0 || from_device == to_device_) return;
  ++(from_device ? to_host : to_device);
}

Tensor copy_from(const Tensor& self, const Tensor& other, bool) {
  count(self.device().type() == kPretend, other.device().type() == kPretend);
  c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset);
  Opened from(address_of(self)), to(address_of(other));
  on_host(other).copy_(on_host(self));
  return other;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& other) {
  if (other.sizes() != self.sizes()) other.resize_(self.sizes());
  return copy_from(self, other, false);
}

at::Scalar local_scalar(const Tensor& self) {
  count(true, false);
  Opened opened(address_of(self));
  return on_host(self).item();
}

// ---- Everything else ----

// As on CUDA: all tensors on one device, but for numbers without axes, and indices in a list of their own.
void check_devices(const torch::jit::Stack& stack, size_t arguments) {
  std::optional<Device> first;
  const auto check = [&](const Tensor& x) {
    if (!x.defined() || (x.device().type() == at::kCPU && x.dim() == 0)) return;
    TORCH_CHECK(
        !first.has_value() || *first == x.device(),
        "Expected all tensors to be on the same device, but found at least two devices, ", *first, " and ",
        x.device(), "!");
    first = x.device();
  };
  for (const c10::IValue& each : torch::jit::last(stack, arguments)) {
    if (each.isTensor()) check(each.toTensor());
    if (each.isTensorList()) {
      for (const Tensor& x : each.toTensorVector()) check(x);
    }
  }
}

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  check_devices(*stack, op.schema().arguments().size());
  struct Running {
    Running() { ++kernels; }
    ~Running() { --kernels; }
  } running;
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("resize_", &resize);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Storage", &set_whole_storage);
  m.impl("set_.source_Tensor", &at::native::set_tensor_);
  m.impl("set_", &set_nothing);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>()); }

// A lazy conjugate or negation is resolved by a copy, which sees to it itself: else resolving would never end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

// ---- Autocast, to the formats that CUDA casts to ----

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  using namespace at;
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  AT_FORALL_FP32(FP32)
  AT_FORALL_PROMOTE(WIDEST)
}

// ---- For the tests ----

std::tuple<int64_t, int64_t> transfers() { return {to_host.load(), to_device.load()}; }

TORCH_LIBRARY(pretend, m) {
  m.def("transfers", &transfers);  // copies to the host, and to the device, since the process began
  m.def("memory_allocated", [] { return allocated.load(); });
  m.def("current_device", [] { return static_cast<int64_t>(current); });
  m.def("set_device", [](int64_t device) { current = static_cast<DeviceIndex>(device); });
}

}  // namespace
