// One call of an operator on fakes. Only for files of this room that include Dispatcher.h.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <utility>
#include <vector>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {

// Each tensor that an argument or result is, or that a list holds.
template <class F>
void for_each_tensor(const c10::IValue& value, F&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor() && element.toTensor().defined()) visit(element.toTensor());
    }
  }
}

class Call {
 public:
  Call(const Operator& op, const c10::OperatorHandle& handle, torch::jit::Stack& stack);

  const Operator& op;
  const c10::OperatorHandle& handle;
  torch::jit::Stack& stack;

  bool has_fakes = false;
  bool has_unstrided = false, has_quantised = false;  // a sparse or a quantised one among them
  bool has_tensors = false;
  c10::Device device{c10::kCPU};  // of the results, unless the operator is told another

  // --- for rules: arguments by position, results ---
  std::size_t size() const { return op.args.size(); }
  const c10::IValue& arg(std::size_t i) const { return stack[first_ + i]; }
  const at::Tensor& tensor(std::size_t i) const { return arg(i).toTensor(); }
  bool has_tensor(std::size_t i) const { return arg(i).isTensor() && arg(i).toTensor().defined(); }
  void replace_arg(std::size_t i, c10::IValue value) { stack[first_ + i] = std::move(value); }
  void find_scope();  // again, of arguments that were replaced
  [[noreturn]] void needs_data() const;
  void give(c10::IValue result);  // replaces the arguments
  void give(c10::IValue first, c10::IValue second);
  void give(c10::IValue first, c10::IValue second, c10::IValue third);
  at::Tensor fresh(c10::IntArrayRef sizes, c10::ScalarType dtype) const;
  at::Tensor fresh(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype) const;

  at::Tensor fresh(c10::IntArrayRef sizes, c10::MemoryFormat format, c10::ScalarType dtype) const;
  at::Tensor fresh_like(const at::Tensor& tensor,
                        c10::ScalarType dtype) const;  // as empty_like: dense strides in the same order
  at::Tensor maybe_tensor(std::size_t i) const { return has_tensor(i) ? tensor(i) : at::Tensor(); }

  // Runs the operator by its plan. `keys`: the key set of the dispatcher.
  void run(c10::DispatchKeySet keys);

  // --- the steps of run(), for calls with open sizes (call_open.h) ---
  void note_facts();
  void check_written();
  void run_plan(c10::DispatchKeySet keys);
  static void note_may_raise();

 private:
  void inspect(const at::Tensor& tensor);
  void on_twins();
  void check_overlap(const at::Tensor& written);
  bool may_raise() const;
  bool numbers_may_raise() const;
  bool dtypes_may_raise() const;
  bool reaches_beyond() const;
  bool overwrites() const;
  bool never_drops() const;

  std::size_t first_;
  std::shared_ptr<SizeScope> scope_;  // of open sizes and numbers among the arguments
  bool device_from_scalar_ = true;
};

// The call is one that compilers do not take as what it is.
void note_only_as_captured();
// Runs an operator of sparse tensors: rules_unstrided.cpp.
void run_unstrided(Call& call, c10::DispatchKeySet keys);
// Runs an operator of quantised tensors: rules_quantised.cpp.
void run_quantised(Call& call, c10::DispatchKeySet keys);

// What a kernel says of numbers and texts before it looks at any element is thrown: it runs on tensors that have none,
// so nothing is computed, written or drawn.
void ask_kernel(const Call& call);
// An empty range is an error of the program, also where a compiler gets the graph.
void check_numbers(const Call& call);

}  // namespace pellucid::aten
