#include "runtime/draws.h"

#include <structmember.h>

#include <algorithm>
#include <utility>

#include "region/draws.h"

namespace pellucid::runtime {
namespace {

struct Step {
  std::size_t generator;    // among the arguments
  Py_ssize_t operand = -1;  // without a generator: a number that was drawn before
  py::Owned<> function;
  py::Owned<> arguments;
};

struct Drawer {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::vector<Step>* steps;
  bool keeps;
};

PyTypeObject* drawer_type = nullptr;

// No destructor: a thread ends without the GIL.
struct Last {
  PyObject* drawer = nullptr;  // compared only
  KeptDraws* kept = nullptr;   // owned
};
thread_local Last last;

void forget_last() noexcept { const std::unique_ptr<KeptDraws> old(std::exchange(last, {}).kept); }

Drawer* cast(PyObject* object) noexcept { return reinterpret_cast<Drawer*>(object); }

py::Owned<> drawn_by(const Step& step, PyObject* const* generators, PyObject* numbers) {
  if (step.operand >= 0)
    return py::take(PyObject_CallOneArg(step.function.get(), PyTuple_GET_ITEM(numbers, step.operand)));
  const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(step.arguments.get()));
  std::vector<PyObject*> values{generators[step.generator]};
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(PyTuple_GET_ITEM(step.arguments.get(), static_cast<Py_ssize_t>(i)));
  return py::take(PyObject_Vectorcall(step.function.get(), values.data(), values.size(), nullptr));
}

PyObject* call(PyObject* self, PyObject* const* generators, std::size_t nargsf, PyObject*) {
  return py::enter([&] {
    const Drawer* drawer = cast(self);
    const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(nargsf));
    forget_last();
    std::unique_ptr<KeptDraws> kept;
    if (drawer->keeps) {
      kept = std::make_unique<KeptDraws>();
      for (std::size_t i = 0; i < count; ++i) kept->add(generators[i]);
    }
    auto numbers = py::take(PyTuple_New(static_cast<Py_ssize_t>(drawer->steps->size())));
    Py_ssize_t at = 0;
    for (const Step& step : *drawer->steps)
      PyTuple_SET_ITEM(numbers.get(), at++, drawn_by(step, generators, numbers.get()).release());
    last = {self, kept.release()};
    return numbers;
  });
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  if (cast(object)->steps == nullptr) return 0;
  for (const Step& step : *cast(object)->steps) {
    Py_VISIT(step.function.get());
    Py_VISIT(step.arguments.get());
  }
  return 0;
}

void dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  const std::unique_ptr<std::vector<Step>> steps(std::exchange(cast(object)->steps, nullptr));
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  const auto held_type = py::Owned<PyTypeObject>::steal(type);
}

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Drawer, vectorcall), READONLY, nullptr},
    {},
};

PyObject* helper(const char* name) { return py::import_attr("pellucid._draws", name).release(); }

}  // namespace

void KeptDraws::add(PyObject* generator) {
  static PyObject* const of_python = py::import_attr("random", "Random").release();
  static PyObject* const state_of = helper("state_of");
  if (reinterpret_cast<PyObject*>(Py_TYPE(generator)) == of_python) {
    of_python_.emplace_back(generator);
  } else {
    of_numpy_.emplace_back(py::Owned<>::share(generator), py::take(PyObject_CallOneArg(state_of, generator)));
  }
}

void KeptDraws::put_back() {
  static PyObject* const put_back = helper("put_back");
  for (py::RandomState& state : of_python_) state.restore();
  for (const auto& [generator, state] : of_numpy_)
    (void)py::take(PyObject_CallFunctionObjArgs(put_back, generator.get(), state.get(), nullptr));
}

py::Owned<> make_drawer(const region::Capture& capture) {
  if (capture.draws.empty()) return {};
  const std::vector<const source::Source*> generators = region::generators_of(capture);
  auto object = py::take(PyType_GenericAlloc(drawer_type, 0));
  Drawer* self = cast(object.get());
  self->vectorcall = call;
  self->steps = new std::vector<Step>;
  for (const region::Draw& draw : capture.draws) {
    Step step{.generator = 0, .function = draw.function.copy(), .arguments = draw.arguments.copy()};
    if (draw.generator)
      step.generator = static_cast<std::size_t>(std::ranges::find(generators, draw.source) - generators.begin());
    else
      step.operand = PyLong_AsSsize_t(PyTuple_GET_ITEM(step.arguments.get(), 0));
    self->steps->push_back(std::move(step));
  }
  return object;
}

void keep_states(PyObject* drawer) { cast(drawer)->keeps = true; }

std::unique_ptr<KeptDraws> take_kept(PyObject* drawer) {
  if (last.drawer != drawer) return nullptr;
  return std::unique_ptr<KeptDraws>(std::exchange(last, {}).kept);
}

// No tp_clear: the cycles it can be in go through the dict of the region's globals.
void initialise_drawer_type(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_members, kMembers},
      {0, nullptr},
  };
  static PyType_Spec spec = {"pellucid._core.Drawer", sizeof(Drawer), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                             slots};
  drawer_type = reinterpret_cast<PyTypeObject*>(py::take(PyType_FromModuleAndSpec(module, &spec, nullptr)).release());
}

}  // namespace pellucid::runtime
