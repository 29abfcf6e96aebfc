// A digest of 128 bits: the same for the same bytes in every process. It tells what has changed, and withstands nobody
// who looks for two texts with one digest.
#pragma once
#include <string>
#include <string_view>

namespace pellucid {

std::string digest(std::string_view bytes);  // 16 bytes

}  // namespace pellucid
