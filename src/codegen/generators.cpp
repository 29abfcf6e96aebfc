// How a suspended generator of the region is made for real.
#include "frames/generators.h"

#include "codegen/walk.h"
#include "region/frame.h"
#include "region/generator.h"

namespace pellucid::codegen {
namespace {

using region::Frame;

std::vector<Expr> slots(Walker& walker, const std::vector<py::Owned<>>& values) {
  std::vector<Expr> items;
  for (const auto& value : values)
    items.push_back(value ? walker.ref(value.get()) : Expr::constant(frames::empty_slot()));
  return items;
}

Stmt fill(Walker& walker, Expr target, const region::TracedGenerator& generator) {
  const Frame& frame = *generator.frame;
  const auto or_none = [&](const py::Owned<>& value) { return walker.ref(value ? value.get() : Py_None); };
  const bool has_object = frame.frame_object && Py_REFCNT(frame.frame_object.get()) > 1;
  Stmt stmt{.kind = Stmt::Kind::Evaluate};
  stmt.value = Expr::call(frames::generator_filler(),
                          exprs(std::move(target), Expr::constant(generator.started ? Py_True : Py_False),
                                Expr::constant(py::take(PyLong_FromLong(frame.next)).get()),
                                Expr::list(Expr::Kind::Tuple, slots(walker, frame.fast)),
                                Expr::list(Expr::Kind::Tuple, slots(walker, frame.stack)), or_none(frame.handled),
                                has_object ? walker.ref(frame.frame_object.get()) : Expr::constant(Py_None)));
  return stmt;
}

Stmt end(Expr target) {
  Stmt stmt{.kind = Stmt::Kind::Evaluate};
  stmt.value = Expr::call(frames::generator_ender(), exprs(std::move(target)));
  return stmt;
}

PyObject* object_of(PyFunctionObject* function) { return reinterpret_cast<PyObject*>(function); }

// Not asked of Frame::info, which went with the executor.
bool is_polyfill(const Frame& frame) {
  PyObject* module = frame.function->func_module;
  return module != nullptr && PyUnicode_Check(module) &&
         PyUnicode_CompareWithASCIIString(module, "pellucid.polyfills") == 0;
}

}  // namespace

Recipe recipe_of_generator(Walker& walker, PyObject* object, const Expr& self) {
  const auto& generator = *reinterpret_cast<region::TracedGenerator*>(object);
  Recipe recipe;
  if (generator.frame == nullptr) {
    if (generator.is_polyfill && !generator.running) cannot_reconstruct(object, "an iterator that ended");
    recipe.make = Expr::call(frames::generator_maker(), exprs(walker.ref(object_of(generator.function))));
    if (!generator.running) recipe.fill.push_back(end(self.copy()));  // else its frame is one of the open ones
    return recipe;
  }
  const Frame& frame = *generator.frame;
  if (is_polyfill(frame) && !walker.capture().unseen_generators.contains(object))
    return recipe_of_builtin(walker, object, self);
  recipe.make = Expr::call(frames::generator_maker(), exprs(walker.ref(object_of(generator.function))));
  recipe.fill.push_back(fill(walker, self.copy(), generator));
  return recipe;
}

void replay_generator(Walker& walker, std::vector<Stmt>& out, const region::Effect& effect) {
  const auto& now = *reinterpret_cast<region::TracedGenerator*>(effect.value.get());
  PyObject* target = effect.target.get();
  if (now.running) return;  // its frame is one of the open ones
  if (now.frame != nullptr) {
    out.push_back(fill(walker, walker.ref(target), now));
  } else if (!frames::has_ended(target)) {
    out.push_back(end(walker.ref(target)));
  }
}

}  // namespace pellucid::codegen
