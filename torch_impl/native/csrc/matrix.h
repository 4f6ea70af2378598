#pragma once

#include <cstdint>

namespace gradparity {

// A matrix of any strides.
template <typename T>
struct Matrix {
  const T* data;
  int64_t rows, columns, row_stride, column_stride;

  const T* at(int64_t row, int64_t column) const {
    return data + row * row_stride + column * column_stride;
  }

  // `height` rows from `row` on, `width` columns from `column` on.
  Matrix block(int64_t row, int64_t height, int64_t column, int64_t width) const {
    return {at(row, column), height, width, row_stride, column_stride};
  }
};

} // namespace gradparity
