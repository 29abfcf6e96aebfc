// Builtin iterators that are generators of ours during capture (polyfills.py): how the real ones are made that stand
// where these do.
#include "codegen/walk.h"
#include "py/cpython.h"
#include "region/frame.h"
#include "region/generator.h"
#include "region/types.h"

namespace pellucid::codegen {
namespace {

using region::Frame;

// A polyfill's frame: suspended at a yield, or not started.
struct Body {
  Walker& walker;
  PyObject* object;
  const Frame& frame;
  bool started;

  PyObject* local(std::string_view name) const {
    for (std::size_t slot = 0; slot < frame.fast.size(); ++slot) {
      PyObject* candidate = py::slot_name(frame.code.get(), static_cast<int>(slot));
      if (py::text_of(candidate) == name) return frame.fast[slot].get();
    }
    return nullptr;
  }
  Expr ref(std::string_view name) const { return walker.ref(local(name)); }
  [[noreturn]] void refuse() const { cannot_reconstruct(object, "an iterator with state of its own"); }
  // The real one asks it for its iterator once more: nothing of the program may hear that.
  Expr iterator(PyObject* over) const {
    if (over == nullptr || ((Py_TYPE(over)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && !region::is_generator(over)))
      cannot_reconstruct(object, "an iterator over an object of a Python class");
    if (Py_TYPE(over)->tp_iter == nullptr) refuse();  // the real one would have raised when it was made
    return walker.ref(over);
  }
  // What the loop in the body goes over; `argument` before it begins.
  Expr looped(std::string_view argument) const {
    if (!started) return iterator(local(argument));
    if (frame.stack.size() != 1) refuse();
    return iterator(frame.stack.front().get());
  }
  std::vector<Expr> iterators(std::string_view before, std::string_view in_body) const {
    PyObject* all = local(started ? in_body : before);
    if (all == nullptr || !(PyTuple_Check(all) || PyList_Check(all))) refuse();
    std::vector<Expr> items;
    for (PyObject* one : list_items(all)) items.push_back(iterator(one));
    return items;
  }
};

PyObject* type_object(PyTypeObject& type) { return reinterpret_cast<PyObject*>(&type); }

PyObject* itertools(const char* name) { return py::import_attr("itertools", name).release(); }  // types never go

Recipe of_call(PyObject* type, std::vector<Expr> arguments) {
  Recipe recipe;
  recipe.make = Expr::call(type, std::move(arguments));
  return recipe;
}

Recipe of_keyword_call(PyObject* type, std::vector<Expr> arguments, const char* keyword, Expr value) {
  Expr names = Expr::list(Expr::Kind::Map, exprs(Expr::constant(py::interned(keyword).get()), std::move(value)));
  Recipe recipe;
  recipe.make =
      Expr::list(Expr::Kind::CallKw,
                 exprs(Expr::constant(type), Expr::list(Expr::Kind::Tuple, std::move(arguments)), std::move(names)));
  return recipe;
}

void set_state(Recipe& recipe, PyObject* type, const Expr& self, Expr state) {
  Stmt stmt{.kind = Stmt::Kind::Evaluate};
  PyObject* method = lookup(reinterpret_cast<PyTypeObject*>(type), "__setstate__");
  stmt.value = Expr::call(method, exprs(self.copy(), std::move(state)));
  recipe.fill.push_back(std::move(stmt));
}

Expr sum(Walker& walker, PyObject* left, PyObject* right) {
  return Expr::constant(walker.hold(py::take(PyNumber_Add(left, right))));
}

Recipe of_map(const Body& body, const Expr&) {
  return of_call(type_object(PyMap_Type), exprs(body.ref("function"), body.looped("iterable")));
}

Recipe of_filter(const Body& body, const Expr&) {
  return of_call(type_object(PyFilter_Type), exprs(body.ref("function"), body.looped("iterable")));
}

Recipe of_enumerate(const Body& body, const Expr&) {
  PyObject* number = body.local(body.started ? "number" : "start");
  if (!PyLong_CheckExact(number)) body.refuse();
  const auto one = py::take(PyLong_FromLong(body.started ? 1 : 0));
  return of_call(type_object(PyEnum_Type), exprs(body.looped("iterable"), sum(body.walker, number, one.get())));
}

Recipe of_zip(const Body& body, const Expr&) {
  return of_keyword_call(type_object(PyZip_Type), body.iterators("iterables", "iterators"), "strict",
                         body.ref("strict"));
}

Recipe of_chain(const Body& body, const Expr& self) {
  static PyObject* const type = itertools("chain");
  if (!body.started) {  // these are asked for their iterators later
    std::vector<Expr> items;
    for (PyObject* one : list_items(body.local("iterables"))) items.push_back(body.walker.ref(one));
    return of_call(type, std::move(items));
  }
  if (body.frame.stack.size() != 2) body.refuse();
  Recipe recipe = of_call(type, {});
  std::vector<Expr> state = exprs(body.walker.ref(body.frame.stack[0].get()), body.iterator(body.frame.stack[1].get()));
  set_state(recipe, type, self, Expr::list(Expr::Kind::Tuple, std::move(state)));
  return recipe;
}

// Its next element is number `wanted` of the iterator, which has given `index`.
Recipe of_islice(const Body& body, const Expr& self) {
  static PyObject* const type = itertools("islice");
  PyObject *stop = body.local("stop"), *step = body.local("step");
  if (!body.started) {
    return of_call(type,
                   exprs(body.iterator(body.local("iterable")), body.ref("start"), body.ref("stop"), body.ref("step")));
  }
  auto next = py::take(PyNumber_Add(body.local("wanted"), step));
  if (stop != Py_None && PyObject_RichCompareBool(next.get(), stop, Py_GT) == 1) next = py::Owned<>::share(stop);
  PyObject* start = body.walker.hold(std::move(next));
  Recipe recipe = of_call(type, exprs(body.iterator(body.local("iterator")), Expr::constant(start),
                                      Expr::constant(stop), Expr::constant(step)));
  set_state(recipe, type, self, body.ref("index"));
  return recipe;
}

Recipe of_starmap(const Body& body, const Expr&) {
  static PyObject* const type = itertools("starmap");
  return of_call(type, exprs(body.ref("function"), body.looped("iterable")));
}

Recipe of_takewhile(const Body& body, const Expr&) {
  static PyObject* const type = itertools("takewhile");
  return of_call(type, exprs(body.ref("predicate"), body.looped("iterable")));
}

Recipe of_reversed(const Body& body, const Expr& self) {
  PyObject* sequence = body.local("sequence");
  if (region::is_mutable_class(Py_TYPE(sequence)))
    cannot_reconstruct(body.object, "an iterator over an object of a Python class");
  Recipe recipe = of_call(type_object(PyReversed_Type), exprs(body.walker.ref(sequence)));
  const auto one = py::take(PyLong_FromLong(-1));  // the next index: behind the one it gave
  set_state(recipe, type_object(PyReversed_Type), self,
            sum(body.walker, body.local(body.started ? "index" : "length"), one.get()));
  return recipe;
}

struct Row {
  const char* polyfill;
  Recipe (*recipe)(const Body&, const Expr& self);
};

constexpr Row kRows[] = {
    {"map_each", of_map},         {"filter_each", of_filter},       {"enumerate_each", of_enumerate},
    {"zip_each", of_zip},         {"chain_each", of_chain},         {"islice_each", of_islice},
    {"starmap_each", of_starmap}, {"takewhile_each", of_takewhile}, {"reversed_each", of_reversed},
};

}  // namespace

Recipe recipe_of_builtin(Walker& walker, PyObject* object, const Expr& self) {
  const auto& generator = *reinterpret_cast<region::TracedGenerator*>(object);
  const Body body{walker, object, *generator.frame, generator.started};
  const std::string name = py::text_of(body.frame.code->co_name);
  for (const Row& row : kRows) {
    if (name == row.polyfill) return row.recipe(body, self);
  }
  body.refuse();
}

}  // namespace pellucid::codegen
