// Where an instruction stands in the source text: what co_positions() gives.
#pragma once

namespace pellucid::bytecode {

struct Position {
  int line = -1;  // -1: none
  int end_line = -1;
  int column = -1;  // in UTF-8 bytes
  int end_column = -1;
  bool operator==(const Position&) const = default;
};

}  // namespace pellucid::bytecode
