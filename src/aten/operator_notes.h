// What runs on fakes, noted for replay.h. Only for files of this room that include Dispatcher.h.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "aten/call.h"

namespace pellucid::aten {

struct RanOperator {
  std::optional<c10::OperatorHandle> handle;  // none: a constructor, which gave this tensor with data
  std::vector<c10::IValue> arguments, results;
};

class RanOnFakes {
 public:
  std::vector<RanOperator> operators;
  bool is_whole = true;  // nothing else ran that may write
};

// One call of an operator, around its run: what the operator itself calls is no part of the program.
class OperatorNote {
 public:
  explicit OperatorNote(const Call& call);
  void done(const Call& call);

 private:
  std::size_t first_, known_;
  bool was_whole_;
  std::optional<RanOperator> ran_;
};

// An operator ran that nobody noted.
void note_unknown_operator();
void forget_operators();

}  // namespace pellucid::aten
