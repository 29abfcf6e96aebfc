// Whether two code objects are the same program.
#pragma once
#include <Python.h>

#include <cstdint>
#include <string>

namespace pellucid::decompile {

enum class Verified : std::uint8_t {
  No,          // the instructions differ
  Equivalent,  // the same steps on every way through them, laid out in another order
  Normalised,  // the same instructions but for those that do nothing, and the places of names and constants
  Equal,       // the same bytes of instructions and exception table, and the same names and constants
};

// Compares instructions, constants (code objects among them), names, parameters, flags and exception tables; not names
// of files and lines. `difference` says where the first is.
Verified compare(PyCodeObject* one, PyCodeObject* other, std::string& difference);

}  // namespace pellucid::decompile
