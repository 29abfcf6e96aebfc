// How the tracebacks of exceptions that the region raised are made for real, with their frames: of those that are over,
// what they held; those that are open at the exit are entered later (frames/replace311.cpp).
#include "codegen/walk.h"
#include "frames/frame_objects.h"
#include "frames/generators.h"

namespace pellucid::codegen {
namespace {

Expr number(int value) { return Expr::constant(py::take(PyLong_FromLong(value)).get()); }

Stmt evaluate(Expr value) {
  Stmt stmt{.kind = Stmt::Kind::Evaluate};
  stmt.value = std::move(value);
  return stmt;
}

// `closed`: what capture has closed; `back`: the frame that called it.
Stmt close(Walker& walker, Expr target, const frames::ClosedFrame& closed, Expr back) {
  std::vector<Expr> fast;
  for (PyObject* value : closed.fast)
    fast.push_back(value != nullptr ? walker.ref(value) : Expr::constant(frames::empty_slot()));
  return evaluate(Expr::call(
      frames::frame_closer(),
      exprs(std::move(target), number(closed.lasti), Expr::list(Expr::Kind::Tuple, std::move(fast)), std::move(back))));
}

Expr back_of(Walker& walker, const frames::ClosedFrame& closed, bool is_outermost) {
  if (is_outermost) return Expr::constant(frames::region_caller());
  return closed.back != nullptr ? walker.ref(closed.back) : Expr::constant(Py_None);
}

}  // namespace

Recipe recipe_of_frame(Walker& walker, PyObject* object, const Expr& self) {
  const region::Capture& capture = walker.capture();
  const bool is_open = !capture.closed_frame_objects.contains(object);
  if (is_open && !capture.open_frame_objects.contains(object)) cannot_reconstruct(object, "");
  const frames::ClosedFrame frame = frames::closed_frame(object);
  Recipe recipe;
  recipe.make = Expr::call(frames::frame_maker(), exprs(Expr::constant(reinterpret_cast<PyObject*>(frame.code)),
                                                        Expr::constant(frame.globals)));
  if (is_open) return recipe;
  Expr back = back_of(walker, frame, object == capture.outermost_frame_object);
  recipe.fill.push_back(close(walker, self.copy(), frame, std::move(back)));
  return recipe;
}

void replay_frame(Walker& walker, std::vector<Stmt>& out, const region::Effect& effect) {
  const frames::ClosedFrame frame = frames::closed_frame(effect.value.get());
  Expr back = back_of(walker, frame, effect.ends);
  out.push_back(close(walker, walker.ref(effect.target.get()), frame, std::move(back)));
}

Recipe recipe_of_traceback(Walker& walker, PyObject* object, const Expr&) {
  auto* entry = reinterpret_cast<PyTracebackObject*>(object);
  auto* next = entry->tb_next == nullptr ? Py_None : reinterpret_cast<PyObject*>(entry->tb_next);
  Recipe recipe;
  recipe.make = Expr::call(reinterpret_cast<PyObject*>(&PyTraceBack_Type),
                           exprs(walker.ref(next), walker.ref(reinterpret_cast<PyObject*>(entry->tb_frame)),
                                 number(entry->tb_lasti), number(entry->tb_lineno)));
  return recipe;
}

void add_raised(Walker& walker, PyObject* object, const Expr& self, Recipe& recipe) {
  const auto* error = reinterpret_cast<PyBaseExceptionObject*>(object);
  if (error->traceback == nullptr || error->traceback == Py_None) return;
  auto name = py::interned("__traceback__");
  recipe.fill.push_back(set_c_attr(object, self.copy(), name.get(), walker.ref(error->traceback)));
  if (error->context == nullptr)
    recipe.fill.push_back(evaluate(Expr::call(frames::context_linker(), exprs(self.copy()))));
}

}  // namespace pellucid::codegen
