// Size rules: what an operator's results are where sizes may be others at the next call.
//
// An operator first runs on the sizes of the capture (the hints) as it does without any open size: shape rule or meta
// kernel, checks, error texts, dtypes, aliasing. Its size rule then says the sizes and strides of the results as
// expressions, and requires what the run at the hints took for granted: at every size that fulfils this, the
// operator does the same. What a rule gives is compared with the run.
#pragma once
#include <ATen/core/ivalue.h>

#include <span>
#include <vector>

#include "aten/sizes_layout.h"
#include "aten/table.h"

namespace pellucid::aten {

struct Operator;

// One call of an operator, some of whose arguments have open sizes or are open numbers.
class SizeCall : public SizeLayouts {
 public:
  SizeCall(const Operator& op, std::shared_ptr<SizeScope> scope, std::vector<c10::IValue> arguments);

  const Operator& op;

  // --- arguments by position, as the program passed them ---
  std::size_t size() const noexcept { return arguments_.size(); }
  const c10::IValue& arg(std::size_t i) const { return arguments_[i]; }
  bool has_tensor(std::size_t i) const { return arg(i).isTensor() && arg(i).toTensor().defined(); }
  const at::Tensor& tensor(std::size_t i) const { return arg(i).toTensor(); }
  Shape shape(std::size_t i) { return shape_of_tensor(tensor(i)); }  // of a tensor
  std::vector<at::Tensor> tensors(std::size_t i) const;  // of a list of tensors; undefined where one is None
  const Expr* number(std::size_t i);                     // of an int or SymInt
  bool is_none(std::size_t i) const { return arg(i).isNone(); }
  bool flag(std::size_t i) const { return arg(i).isBool() && arg(i).toBool(); }
  using SizeArithmetic::plain;
  std::int64_t plain(std::size_t i) { return plain(number(i)); }  // the same, where only a plain int will do
  Exprs numbers(std::size_t i);                                   // of a list of ints or SymInts
  // The dimension that argument `i` names in a tensor of this rank.
  std::size_t dim(std::size_t i, std::size_t rank) const;
  void fix_all();  // every open size and number among the arguments is a constant from now on

  // --- what the run at the hints gave: all tensors of all results in order, without those that are arguments ---
  std::size_t results() const noexcept { return results_.size(); }
  const at::Tensor& result(std::size_t k) const { return results_[k]; }

  // --- results ---
  // A result that is no new tensor but the argument that is written has to have these sizes: `give` for a `k` beyond.
  // These sizes, and no gaps: the dimensions lie in the order that the run at the hints found, which is for the rule to
  // know: that at other sizes it is the same order.
  void give(std::size_t k, const Exprs& sizes);
  void give(std::size_t k, const Shape& shape);  // of any layout
  void give_contiguous(std::size_t k, const Exprs& sizes);
  void give_format(std::size_t k, const Exprs& sizes, c10::MemoryFormat format);
  void give_like(std::size_t k, const Shape& shape) { give(k, {shape.sizes, strides_like(shape), constant(0)}); }
  // Every argument that the operator writes keeps its shape, which are these sizes.
  void require_written(const Exprs& sizes);

  // For whoever calls the rule: the shapes given; empty sizes with a null offset where the rule gave none.
  const std::vector<Shape>& given() const noexcept { return given_; }
  // `reshaped`: the result is the argument that is written, with another shape (unsqueeze_).
  void set_results(std::vector<at::Tensor> results, bool reshaped);

 private:
  std::vector<c10::IValue> arguments_;
  std::vector<at::Tensor> results_;
  std::vector<Shape> given_;
  bool reshaped_ = false;
};

// False: this case is not covered; the open sizes among the arguments become constants.
using SizeRule = bool (*)(SizeCall&);

// Without an overload a row is for all of them; in-place and out forms are found by it too.
using SizeRow = RowOf<SizeRule>;
using SizeTable = TableOf<SizeRule>;

SizeTable like_sizes();      // sizes_like.cpp: results like an argument
SizeTable view_sizes();      // sizes_view.cpp
SizeTable part_sizes();      // sizes_part.cpp: views of some elements
SizeTable matmul_sizes();    // sizes_matmul.cpp
SizeTable reduce_sizes();    // sizes_reduce.cpp
SizeTable join_sizes();      // sizes_join.cpp
SizeTable index_sizes();     // sizes_index.cpp
SizeTable window_sizes();    // sizes_window.cpp: convolution, pooling, padding, interpolation
SizeTable make_sizes();      // sizes_make.cpp: factories
SizeTable linalg_sizes();    // sizes_linalg.cpp: Fourier transforms, decompositions
SizeTable nn_sizes();        // sizes_nn.cpp: normalisation, attention, losses
SizeTable backward_sizes();  // sizes_backward.cpp: what autograd calls

// nullptr when there is none. `is_elementwise`: by torch's own tag.
SizeRule find_size_rule(const std::string& name, bool is_elementwise);
void drop(Shape& shape, std::size_t d);  // a dimension
// The size that two dimensions broadcast to.
const Expr* broadcast(SizeCall& call, const Expr* a, const Expr* b);
// A tensor of these sizes takes part where the result has the others.
void require_expandable(SizeCall& call, const Exprs& from, const Exprs& to);
// Computes each element from those in the same place, after broadcasting.
bool broadcast_sizes(SizeCall& call);
// Gives a result the format (contiguous or channels_last) of an argument, where the kernel knows that.
void give_in_format_of(SizeCall& call, std::size_t k, std::size_t arg, const Exprs& sizes);
// All results are contiguous and have the sizes of the argument.
template <std::size_t arg>
bool contiguous_like(SizeCall& call) {
  const Exprs sizes = call.shape(arg).sizes;
  call.require_written(sizes);
  for (std::size_t k = 0; k < call.results(); ++k) call.give_contiguous(k, sizes);
  return true;
}

}  // namespace pellucid::aten
