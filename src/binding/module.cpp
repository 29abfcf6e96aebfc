// The extension module pellucid._core, nothing else.
#include <nanobind/nanobind.h>

NB_MODULE(_core, m) { m.doc() = "The native core of pellucid."; }
