// Tensors joined, repeated and cut out.
#include <vector>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

// The memory format that all of them suggest, else contiguous: as the meta kernel of cat chooses.
c10::MemoryFormat common_format(SizeCall& call, const std::vector<at::Tensor>& tensors) {
  const c10::MemoryFormat first = call.format_of(tensors.front());
  for (const at::Tensor& tensor : tensors) {
    if (first == c10::MemoryFormat::Contiguous || call.format_of(tensor) != first) return c10::MemoryFormat::Contiguous;
  }
  return first;
}

bool cat(SizeCall& call) {
  const std::vector<at::Tensor> tensors = call.tensors(0);
  // Beside others, a tensor of sizes (0,) counts for nothing, whatever their rank is.
  std::vector<at::Tensor> joined;
  for (const at::Tensor& tensor : tensors) {
    const Exprs sizes = call.shape_of_tensor(tensor).sizes;
    if (sizes.size() != 1 || !call.is(sizes[0], 0)) joined.push_back(tensor);
  }
  if (joined.empty()) return false;
  Exprs sizes = call.shape_of_tensor(joined.front()).sizes;
  const std::size_t along = call.dim(1, sizes.size());
  for (std::size_t i = 1; i < joined.size(); ++i) {
    const Exprs more = call.shape_of_tensor(joined[i]).sizes;
    if (more.size() != sizes.size()) return false;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (d == along) {
        sizes[d] = call.add(sizes[d], more[d]);
      } else {
        call.require_equal(sizes[d], more[d]);
        if (more[d]->is_constant()) sizes[d] = more[d];
      }
    }
  }
  call.give_format(0, sizes, common_format(call, tensors));
  return true;
}

bool stack(SizeCall& call) {
  const std::vector<at::Tensor> tensors = call.tensors(0);
  Exprs sizes = call.shape_of_tensor(tensors.front()).sizes;
  for (const at::Tensor& tensor : tensors) {
    const Exprs more = call.shape_of_tensor(tensor).sizes;
    if (more.size() != sizes.size()) return false;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      call.require_equal(sizes[d], more[d]);
      if (more[d]->is_constant()) sizes[d] = more[d];
    }
  }
  const auto at = static_cast<std::ptrdiff_t>(call.dim(1, sizes.size() + 1));
  sizes.insert(sizes.begin() + at, call.constant(static_cast<std::int64_t>(tensors.size())));
  call.give_contiguous(0, sizes);
  return true;
}

bool repeat(SizeCall& call) {
  const Exprs from = call.shape(0).sizes;
  Exprs sizes = call.numbers(1);
  const std::size_t more = sizes.size() - from.size();
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    call.require_at_least(sizes[d], 0);
    if (d >= more) sizes[d] = call.mul(sizes[d], from[d - more]);
  }
  call.give_contiguous(0, sizes);
  return true;
}

// Left, right of the last dimension, then of the one before, and so on; a negative number cuts off.
bool constant_pad_nd(SizeCall& call) {
  const Shape from = call.shape(0);
  const Exprs pads = call.numbers(1);
  Exprs sizes = from.sizes;
  for (std::size_t i = 0; i < pads.size(); ++i) {
    const Expr*& size = sizes[sizes.size() - 1 - i / 2];
    size = call.add(size, pads[i]);
    if (i % 2 == 0) continue;
    const std::size_t d = sizes.size() - 1 - i / 2;
    // Each end cuts off what is there; what is left may be empty, but no less.
    for (const Expr* pad : {pads[i - 1], pads[i]}) {
      if (call.less(pad, call.constant(0))) call.require_at_least(call.add(from.sizes[d], pad), 0);
    }
    call.require_at_least(size, 0);
  }
  const c10::MemoryFormat format = call.format_of(call.tensor(0));
  call.give_format(0, sizes, format);
  return true;
}

constexpr SizeRow kRows[] = {
    {"cat", cat},
    {"stack", stack},
    {"repeat", repeat},
    {"constant_pad_nd", constant_pad_nd},
};

}  // namespace

SizeTable join_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
