// Tensors and arrays from outside with sizes that may be others at the next call.
#pragma once
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "aten/size_scope.h"
#include "region/capture.h"
#include "region/number_history.h"
#include "region/size_marks.h"

namespace pellucid::region {

class Numbers;

class OpenTensors {
 public:
  explicit OpenTensors(Numbers& numbers) : numbers_(numbers) {}

  // A tensor from outside is read for the first time: what its guard compares. Sizes that are known to change become
  // symbols.
  std::unique_ptr<aten::TensorSpec> spec_of(PyObject* tensor, const Source* source);
  // The same of an array (py::layout_of_array). What is said of strides is of one without gaps.
  py::Owned<> layout_of(PyObject* array, const Source* source, bool with_plain_memory);
  // Its open sizes, also of an array; null: it has none.
  const aten::OpenShape* shape_of(PyObject* tensor) const;
  // Its sizes and strides are constants of the region from now on; `who` asks for them.
  void fix(const aten::OpenShape& shape, const char* who);

 private:
  bool open_stride(PyObject* tensor, const Source* source, aten::OpenLayout& layout, aten::OpenShape& shape,
                   std::int64_t i);
  bool is_asked_for(const Source* source) const;
  bool opens_size(std::int64_t size, const Source* source, PathHash path, const SizeMark& mark);

  Numbers& numbers_;
  std::unordered_map<PyObject*, aten::OpenShape> shapes_;  // by tensor or array from outside
  std::unordered_set<const Source*> wrappers_;             // of tensors around tensors
};

}  // namespace pellucid::region
