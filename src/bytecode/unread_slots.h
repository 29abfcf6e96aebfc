// Local variables that nobody reads any more: every way on stores into them first, or ends.
#pragma once
#include <vector>

#include "bytecode/instruction.h"

namespace pellucid::bytecode {

// Whether one of the ways on from the instruction with this index reads or deletes the variable in this slot before it
// is stored. Whatever is done to a cell reads it.
bool is_read_from(const DecodedCode& code, int index, int slot);

// The slots that are stored on a way from the instruction with this index back to it, each once; empty: it is in no
// loop.
std::vector<int> stored_on_the_way_back(const DecodedCode& code, int index);

}  // namespace pellucid::bytecode
