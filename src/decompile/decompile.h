// Code objects as Python text: what any code object was compiled from, up to names of no consequence.
//
// A text is compiled again and compared with the code object. Where several sources could have been it, the choices of
// `Options` are tried in turn until one is equal.
#pragma once
#include <Python.h>

#include <string>

#include "decompile/verify.h"

namespace pellucid::decompile {

struct Decompiled {
  std::string text;
  std::string module;  // a whole module that the text is a part of: with what its names need around it
  Verified verified = Verified::No;
  std::string difference;  // where its instructions differ
  std::string why;         // there is no text: why not
  bool good = false;
};

// `verify`: compile the text and compare, and try other choices; else the first text is taken.
// Throws PythonError (ValueError) when the code object is malformed.
Decompiled decompile(PyCodeObject* code, bool verify);

}  // namespace pellucid::decompile
