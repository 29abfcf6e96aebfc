#include "region/open_tensors.h"

#include "aten/aten.h"
#include "py/numpy_array.h"
#include "region/jagged.h"
#include "region/region.h"
#include "region/subclasses.h"
#include "symbolic/integers.h"

namespace pellucid::region {

// What a tensor around tensors holds is asked for with the tensor. An export has no others than its arguments: a tensor
// of a global or a closure becomes part of it as it is.
bool OpenTensors::is_asked_for(const Source* source) const {
  if (!numbers_.policy.all_open) return false;
  if (numbers_.policy.exports && source->root()->step != source::Step::Local) return false;
  for (const Source* owner = source; owner != nullptr && !wrappers_.empty(); owner = owner->base) {
    if (wrappers_.contains(owner)) source = owner;
  }
  return !is_of_an_object(source);
}

bool OpenTensors::opens_size(std::int64_t size, const Source* source, PathHash path, const SizeMark& mark) {
  using Wish = SizeMark::Wish;
  const SeenNumber* seen = numbers_.policy.history == nullptr ? nullptr : numbers_.policy.history->find(path);
  const auto now = static_cast<std::uint64_t>(size);
  // Tensors with no element or one in a dimension are broadcast and laid out in ways of their own.
  const bool may = numbers_.policy.graph_numbers != GraphNumbers::None && size >= 2 && mark.wish != Wish::Closed &&
                   !numbers_.region_.unbacked.hints.setup.closes(path);
  const bool asked = is_asked_for(source);
  if (may && mark.wish == Wish::Open) return mark.wants_open(size);
  if (may && (seen != nullptr ? seen->opens_for(now, false, numbers_.policy.is_last) : asked || mark.wants_open(size)))
    return true;
  if (numbers_.policy.history != nullptr) numbers_.region_.capture->numbers.emplace_back(path, SeenNumber{now});
  return false;
}

std::unique_ptr<aten::TensorSpec> OpenTensors::spec_of(PyObject* tensor, const Source* source) {
  const bool marked = has_size_marks(tensor);
  if (is_wrapper_subclass(tensor)) wrappers_.insert(source);
  aten::OpenLayout layout = aten::layout_of(tensor);
  const auto count = static_cast<std::int64_t>(layout.dims.size());
  const bool changes = numbers_.policy.history != nullptr && source->step != source::Step::Const &&
                       (marked || numbers_.policy.parameters || !aten::is_parameter(tensor));
  if (count == 0 || !changes) return aten::TensorSpec::of(tensor);
  auto& table = numbers_.region_.capture->sources;
  aten::OpenShape shape;
  bool any = false;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t size = 0;
    aten::size_at(tensor, i, &size);
    const Source* at = table.size_of(source, i);
    const PathHash path = hash_of(at);
    const SizeMark mark = marked ? size_mark(tensor, i) : SizeMark{};
    auto& dim = layout.dims[static_cast<std::size_t>(i)];
    dim.open = opens_size(size, at, path, mark);
    dim.least = mark.least, dim.most = mark.most;
    any |= dim.open;
    const auto hint = symbolic::Value::of(size);
    shape.sizes.push_back(dim.open ? numbers_.new_symbol(hint, at, path, dim.least, dim.most)
                                   : numbers_.space().constant(hint));
    if (dim.open)
      numbers_.symbols_.back().must_stay_open =
          mark.wish == SizeMark::Wish::Open && numbers_.policy.marks_are_kept && !says_length(tensor, source);
  }
  shape.strides.resize(shape.sizes.size(), nullptr);
  for (std::int64_t i = 0; i < count; ++i) any |= open_stride(tensor, source, layout, shape, i);
  if (!any) return aten::TensorSpec::of(tensor);
  shapes_.emplace(tensor, std::move(shape));
  return aten::TensorSpec::of(tensor, &layout);
}

py::Owned<> OpenTensors::layout_of(PyObject* array, const Source* source, bool with_plain_memory) {
  auto layout = py::layout_of_array(array, with_plain_memory);
  if (numbers_.policy.history == nullptr || source->step == source::Step::Const) return layout;
  symbolic::Space& space = numbers_.space();
  aten::OpenShape shape;
  bool any = false;
  for (std::int64_t i = 0; i < py::dimensions_of(array); ++i) {
    std::int64_t size = 0;
    py::size_of_array(array, i, &size);
    const Source* at = numbers_.region_.capture->sources.size_of(source, i);
    const PathHash path = hash_of(at);
    const auto hint = symbolic::Value::of(size);
    const bool open = opens_size(size, at, path, {});
    if (open) py::open_size(layout.get(), i);
    shape.sizes.push_back(open ? numbers_.new_symbol(hint, at, path, SizeMark{}.least) : space.constant(hint));
    any |= open;
  }
  if (!any) return layout;
  const symbolic::Expr* stride = space.constant(symbolic::Value::of(1));
  shape.strides.resize(shape.sizes.size());
  for (std::size_t i = shape.sizes.size(); i-- > 0;) {
    shape.strides[i] = stride;
    const symbolic::Expr* next = symbolic::product_of(space.nodes(), stride, shape.sizes[i]);
    if (next == nullptr) return py::layout_of_array(array, with_plain_memory);  // no array is so large
    stride = next;
  }
  shapes_.emplace(array, std::move(shape));
  return layout;
}

// The stride of a dimension as an expression. Whether it is open: neither what the sizes say nor always the same.
bool OpenTensors::open_stride(PyObject* tensor, const Source* source, aten::OpenLayout& layout, aten::OpenShape& shape,
                              std::int64_t i) {
  const symbolic::Expr*& made = shape.strides[static_cast<std::size_t>(i)];
  if (made != nullptr) return false;
  auto& dim = layout.dims[static_cast<std::size_t>(i)];
  std::int64_t stride = 0;
  aten::stride_at(tensor, i, &stride);
  made = numbers_.space().constant(symbolic::Value::of(stride));
  if (dim.inner >= 0) {
    bool open = open_stride(tensor, source, layout, shape, dim.inner);
    const auto inner = static_cast<std::size_t>(dim.inner);
    const symbolic::Expr* dense =
        symbolic::product_of(numbers_.space().nodes(), shape.sizes[inner], shape.strides[inner]);
    if (dense == nullptr || dense->is_constant() || dense->hint.i != stride) return open;
    made = dense;
    dim.stride = aten::OpenLayout::Stride::Dense;
    return open;
  }
  if (stride < aten::OpenLayout::kLeastOpenStride) return false;
  const Source* at = numbers_.region_.capture->sources.stride_of(source, i);
  const PathHash path = hash_of(at);
  if (!opens_size(stride, at, path, {})) return false;
  made = numbers_.new_symbol(symbolic::Value::of(stride), at, path, aten::OpenLayout::kLeastOpenStride);
  dim.stride = aten::OpenLayout::Stride::Open;
  return true;
}

const aten::OpenShape* OpenTensors::shape_of(PyObject* tensor) const {
  const auto found = shapes_.find(tensor);
  return found == shapes_.end() ? nullptr : &found->second;
}

void OpenTensors::fix(const aten::OpenShape& shape, const char* who) {
  for (const auto* exprs : {&shape.sizes, &shape.strides}) {
    for (const symbolic::Expr* expr : *exprs) (void)numbers_.fix(expr, who);
  }
}

}  // namespace pellucid::region
