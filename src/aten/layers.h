// Function transforms (torch.func): the levels that are open on this thread, and the tensors that they put around
// others.
#pragma once
#include <cstddef>
#include <cstdint>

#include "py/ref.h"

namespace pellucid::aten {

// Whether a level, which may be over by now, has put this tensor around another one.
bool is_wrapper(PyObject* tensor) noexcept;
// Whether a level of functionalize has: writes to it are kept from the versions until that level hands it out.
bool is_functional(PyObject* tensor) noexcept;
// What lies at the bottom of all wrappers, the tensor itself where there is none. Empty: it cannot be told.
py::Owned<> innermost(PyObject* tensor) noexcept;
// The tensor and all those that it is around, the outermost first.
template <class Visit>
void each_layer(PyObject* tensor, Visit&& visit);

py::Owned<> one_layer_below(PyObject* wrapper) noexcept;  // empty: it cannot be told

// The state of function transforms on this thread.
struct Levels {
  std::size_t depth = 0;               // of vmap, grad and the like
  bool dual = false;                   // the level of forward mode is open
  bool inplace_requires_grad = false;  // a transform makes leaves

  static Levels now() noexcept;
  void restore() const;  // closes what is open beyond
  bool operator==(const Levels&) const = default;
};

// Whether a level of either kind is open.
bool is_below_transform() noexcept;
enum class LevelKind : std::uint8_t { None, Vmap, Grad, Jvp, Other };
// Which levels are open.
struct LevelKinds {
  bool vmap = false;
  bool grad = false;                      // of reverse mode
  bool forward = false;                   // of forward mode, which a program may open without torch.func as well
  bool others = false;                    // of functionalize
  bool one_forward = false;               // and there is only one of that kind, and none of reverse mode
  LevelKind innermost = LevelKind::None;  // of torch.func
};
LevelKinds level_kinds() noexcept;
// What forward mode has for this tensor, at no level of torch.func but the tensor's own. Empty: nothing.
py::Owned<> tangent_of(PyObject* tensor) noexcept;
// Whether the innermost level of all has put something around this tensor.
bool is_of_innermost_level(PyObject* tensor) noexcept;

template <class Visit>
void each_layer(PyObject* tensor, Visit&& visit) {
  auto layer = py::Owned<>::share(tensor);
  while (layer) {
    visit(layer.get());
    if (!is_wrapper(layer.get())) return;
    layer = one_layer_below(layer.get());
  }
}

}  // namespace pellucid::aten
