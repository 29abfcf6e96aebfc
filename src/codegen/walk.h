// Walks the live objects of a capture: which of them exist already, which the graph gives, and how to make the rest.
#pragma once
#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/facts.h"
#include "codegen/plan.h"

namespace pellucid::codegen {

// How to build one object that the region made.
struct Recipe {
  std::optional<Expr> literal;  // builds all of it at once: for objects that take no part in a cycle
  Expr make;                    // else: make, then fill
  std::vector<Stmt> fill;
  // The statements of `fill` that write the instance dict one by one. When that dict is itself part of what leaves the
  // region they give way to one assignment of it.
  PyObject* instance_dict = nullptr;
  std::size_t attributes_begin = 0, attributes_end = 0;
};

class Walker {
 public:
  explicit Walker(const region::Capture& capture);

  // How emitted code gets hold of `object`. Throws GraphBreak when that is impossible.
  Expr ref(PyObject* object);
  // True when `object` can be had without building anything.
  bool exists(PyObject* object) const;
  // Writes the recipes of all objects referenced so far, and of those they need.
  void finish();
  // Keeps a temporary of the walk alive.
  PyObject* hold(py::Owned<> object);

  // What the graph gives in place of a tensor whose autograd graph the region has freed; null: it is none.
  graph::Node* detached(PyObject* object) const;

  bool is_array_of_tensor(PyObject* object) const;

  bool is_constant(PyObject* object) const;  // the same in every call

  const region::Capture& capture() const noexcept { return capture_; }
  const std::vector<PyObject*>& objects() const noexcept { return objects_; }
  std::vector<Recipe>& recipes() noexcept { return recipes_; }
  bool is_made(PyObject* object) const { return ids_.count(object) != 0; }
  PyObject* object_at(const Source* source);  // borrowed; null when no object is known by that source

 private:
  bool tells_an_id(PyObject* object) const;
  bool is_output_as_it_is(PyObject* object) const;
  void link_instance_dicts();
  int add(PyObject* object);
  const Source* source_of(PyObject* object) const;
  const region::Capture& capture_;
  std::unordered_map<PyObject*, PyObject*> target_of_;  // the content of a changed container -> the container itself
  std::unordered_map<const Source*, PyObject*> object_at_;  // capture_.source_of inverted when it is first asked
  std::unordered_map<PyObject*, int> ids_;
  std::vector<PyObject*> objects_;  // by id
  std::vector<Recipe> recipes_;
  std::vector<py::Owned<>> held_;
};

Recipe recipe_of(Walker& walker, PyObject* object, int id);                       // recipes.cpp
Recipe recipe_of_function(Walker& walker, PyObject* function, const Expr& self);  // functions.cpp, like the next two
Recipe recipe_of_bound(Walker& walker, PyObject* method);  // bound methods of Python and C functions
Recipe recipe_of_partial(Walker& walker, PyObject* partial, const Expr& self);
Recipe recipe_of_generator(Walker& walker, PyObject* generator, const Expr& self);  // generators.cpp

// attributes.cpp. None of these ever goes through a __setattr__, property or other descriptor written in Python.
void add_attributes(Walker& walker, PyObject* object, Expr self,
                    Recipe& recipe);  // what the instance dict and the slots hold
Stmt set_instance_attr(PyTypeObject* type, Expr target, PyObject* name, Expr value);  // an entry of the instance dict
Stmt del_instance_attr(PyTypeObject* type, Expr target, PyObject* name);
Stmt set_c_attr(PyObject* target_object, Expr target, PyObject* name, Expr value);  // through a descriptor written in C
Stmt del_c_attr(PyObject* target_object, Expr target, PyObject* name);

// effects.cpp: the statements that replay the effects.
std::vector<Stmt> replay(Walker& walker);

Recipe recipe_of_builtin(Walker& walker, PyObject* generator, const Expr& self);  // builtin_iterators.cpp

// iterators.cpp
std::vector<PyTypeObject*> iterator_types();  // those that can be made again
Recipe recipe_of_iterator(Walker& walker, PyObject* iterator, const Expr& self);
Expr advance(Walker& walker, Expr iterator, std::int64_t count, bool ends);  // a call that gives None

// `throw` of generators of the capture, looked up and not called yet: that of real ones. Else null.
PyObject* real_method(PyObject* descriptor);
Recipe recipe_of_frame(Walker& walker, PyObject* frame, const Expr& self);  // tracebacks.cpp, like the rest
Recipe recipe_of_traceback(Walker& walker, PyObject* traceback, const Expr& self);
void add_raised(Walker& walker, PyObject* exception, const Expr& self, Recipe& recipe);  // its traceback and context
void replay_frame(Walker& walker, std::vector<Stmt>& out, const region::Effect& effect);

void replay_generator(Walker& walker, std::vector<Stmt>& out, const region::Effect& effect);  // generators.cpp

bool is_object_of_subclass(PyObject* object);  // a tensor of a class of the program's
[[noreturn]] void cannot_reconstruct(PyObject* object, const char* why);

}  // namespace pellucid::codegen
