// Calls with open sizes or numbers: the run at the hints, and what its results are at other sizes.
#pragma once
#include <utility>
#include <vector>

#include "aten/call.h"
#include "aten/sizes.h"

namespace pellucid::aten {

// The scope of the open numbers among the last `count` values of the stack; null: there is none.
std::shared_ptr<SizeScope> scope_of_numbers(const torch::jit::Stack& stack, std::size_t count);
// They give way to their hints.
void use_hints(torch::jit::Stack& stack, std::size_t first);

class OpenCall {
 public:
  OpenCall(Call& call, const std::shared_ptr<SizeScope>& scope);
  void run(c10::DispatchKeySet keys);

 private:
  void use_plain_tensors();
  void use_plain_numbers();
  void put_back();
  bool reshapes_itself() const;
  bool reshapes_open() const;
  void reshape();
  void keep_written();
  void generalise();
  bool is_argument(const at::Tensor& tensor) const;

  Call& call_;
  const Operator& op_;
  torch::jit::Stack& stack_;
  std::size_t first_;
  std::shared_ptr<SizeScope> scope_;
  SizeCall open_;
  // Tensors with open sizes, and what stands for them in the run at the hints.
  std::vector<std::pair<at::Tensor, at::Tensor>> replaced_;
};

}  // namespace pellucid::aten
