#include "py/random_state.h"

#include <cstring>

namespace pellucid::py {
namespace {

void* state_in(PyObject* generator) { return reinterpret_cast<unsigned char*>(generator) + sizeof(PyObject); }

// Whether the bytes of this generator are what its own getstate() says, which is a tuple of the words and the index.
bool is_laid_out_as_known(PyObject* generator) {
  const Owned<> base = import_attr("_random", "Random");
  auto* type = reinterpret_cast<PyTypeObject*>(base.get());
  constexpr auto needed = static_cast<Py_ssize_t>(sizeof(PyObject) + sizeof(RandomState::State));
  if (!PyType_Check(base.get()) || PyObject_TypeCheck(generator, type) == 0 || type->tp_basicsize < needed)
    return false;
  const Owned<> getstate = take(PyObject_GetAttrString(base.get(), "getstate"));
  const Owned<> told = take(PyObject_CallOneArg(getstate.get(), generator));
  RandomState::State state;
  std::memcpy(&state, state_in(generator), sizeof(state));
  const auto words = static_cast<Py_ssize_t>(state.words.size());
  if (!PyTuple_Check(told.get()) || PyTuple_GET_SIZE(told.get()) != words + 1) return false;
  const auto is = [&](Py_ssize_t i, std::uint32_t value) {
    PyObject* number = PyTuple_GET_ITEM(told.get(), i);
    return PyLong_Check(number) && PyLong_AsUnsignedLongMask(number) == value;
  };
  for (Py_ssize_t i = 0; i < words; ++i)
    if (!is(i, state.words[static_cast<std::size_t>(i)])) return false;
  return is(words, static_cast<std::uint32_t>(state.index));
}

// random._inst as it was at first, whose methods the functions of the module are: the program may give the name to
// another object, of which nothing is known.
PyObject* generator_of_module() {
  static PyObject* const generator = import_attr("random", "_inst").release();
  return generator;
}

bool is_known() {
  static const bool known = is_laid_out_as_known(generator_of_module());
  return known;
}

}  // namespace

RandomState::RandomState() : RandomState(generator_of_module()) {}

RandomState::RandomState(PyObject* generator) : generator_(Owned<>::share(generator)) {
  if (!is_known()) {
    public_ = take(PyObject_CallMethod(generator, "getstate", nullptr));
    return;
  }
  gauss_next_ = take(PyObject_GetAttrString(generator, "gauss_next"));
  std::memcpy(&state_, state_in(generator), sizeof(state_));
}

void RandomState::restore() {
  PyObject* generator = generator_.get();
  if (public_) {
    (void)take(PyObject_CallMethod(generator, "setstate", "O", public_.get()));
    return;
  }
  check(PyObject_SetAttrString(generator, "gauss_next", gauss_next_.get()));
  std::memcpy(state_in(generator), &state_, sizeof(state_));
}

}  // namespace pellucid::py
