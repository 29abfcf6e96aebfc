// pellucid._core._guards: sources and guard programs built by hand, for tests and the micro benchmark.
#include <nanobind/stl/string.h>

#include <chrono>

#include "expr_ref.h"
#include "guards/foresight.h"
#include "guards/report.h"
#include "hooks.h"
#include "open_layout.h"
#include "source/source.h"

namespace nb = nanobind;

namespace pellucid::hooks {
namespace {

using source::Source;
using source::SourceTable;

[[noreturn]] void fail(PyObject* type, const char* text) {
  PyErr_SetString(type, text);
  throw nb::python_error();
}

// The arguments of a call as the runtime hands them over: an array of slots, a closure.
struct Call {
  Call(nb::tuple values, nb::object closure_or_none) {
    for (nb::handle value : values) locals.push_back(value.ptr());
    if (!closure_or_none.is_none()) closure = closure_or_none.ptr();
  }
  std::vector<PyObject*> locals;
  PyObject* closure = nullptr;
};

const Source* at(const SourceTable& table, int id) {
  if (id < 0 || static_cast<std::size_t>(id) >= table.size()) fail(PyExc_IndexError, "no such source");
  return table.at(static_cast<std::size_t>(id));
}

guards::Kind kind_of(const std::string& name) {
  for (std::size_t i = 0; i < guards::kKinds; ++i) {
    if (guards::name_of(static_cast<guards::Kind>(i)) == name) return static_cast<guards::Kind>(i);
  }
  fail(PyExc_ValueError, "no such kind of guard");
}

// The operand is (expression, source ids by the number of its symbol).
void add_condition(guards::Guard& guard, const SourceTable& table, nb::handle operand) {
  const auto expression = nb::cast<const ExprRef&>(operand[0]);
  auto condition = std::make_shared<guards::Condition>(guards::Condition::of(expression.expr));
  guard.operand = py::take(PyTuple_New(static_cast<Py_ssize_t>(condition->symbols.size())));
  for (std::size_t i = 0; i < condition->symbols.size(); ++i) {
    const Source* source = at(table, nb::cast<int>(operand[1][condition->symbols[i]]));
    condition->names.push_back(source::print(source));
    PyTuple_SET_ITEM(guard.operand.get(), static_cast<Py_ssize_t>(i), py::take(PyLong_FromLong(source->id)).release());
  }
  guard.condition = std::move(condition);
}

// The operand is a tensor, or (tensor, its open layout).
std::unique_ptr<aten::TensorSpec> spec_of(nb::handle operand) {
  if (!PyTuple_Check(operand.ptr())) return aten::TensorSpec::of(operand.ptr());
  const aten::OpenLayout open = open_layout(operand[1]);
  return aten::TensorSpec::of(nb::object(operand[0]).ptr(), &open);
}

// (kind, source id or None, operand or None, number, other source id or None, code, offset, operation)
guards::Guard guard_from(const SourceTable& table, nb::handle row) {
  guards::Guard guard;
  guard.kind = kind_of(nb::cast<std::string>(row[0]));
  if (!row[1].is_none()) guard.source = at(table, nb::cast<int>(row[1]));
  const nb::object operand = row[2];
  if (guard.kind == guards::Kind::TENSOR_MATCH) {
    guard.tensor = guarded([&] { return spec_of(operand); });
  } else if (guard.kind == guards::Kind::CONDITION) {
    guarded([&] { add_condition(guard, table, operand); });
  } else {
    guard.operand = py::Owned<>::share(operand.ptr());
  }
  if (guard.kind == guards::Kind::FORESEEN) {  // between two tensors, of which the first is read
    auto foresight = std::make_shared<guards::Foresight>();
    foresight->apart = 1;
    guard.foresight = std::move(foresight);
  }
  guard.number = nb::cast<std::int64_t>(row[3]);
  if (!row[4].is_none()) guard.other = at(table, nb::cast<int>(row[4]));
  if (!row[5].is_none())
    guard.why.code = py::Owned<PyCodeObject>::share(reinterpret_cast<PyCodeObject*>(nb::object(row[5]).ptr()));
  guard.why.offset = nb::cast<int>(row[6]);
  guard.why.operation = nb::cast<std::string>(row[7]);
  return guard;
}

nb::dict as_dict(const guards::Miss& miss) {
  nb::dict d;
  d["guard"] = miss.guard, d["kind"] = miss.description.kind, d["source"] = miss.description.source;
  d["source_kind"] = miss.description.source_kind, d["line"] = miss.description.line;
  d["operation"] = miss.description.operation, d["message"] = miss.message();
  d["expected"] = miss.expected, d["found"] = miss.found, d["suggestion"] = miss.suggestion;
  return d;
}

class Program {
 public:
  Program(const SourceTable& table, nb::list rows, nb::object function, nb::list inputs) {
    guards::GuardSet set;
    for (nb::handle row : rows) set.add(guard_from(table, row));
    PyFunctionObject* entry = function.is_none() ? nullptr : reinterpret_cast<PyFunctionObject*>(function.ptr());
    std::vector<const Source*> wanted;
    for (nb::handle input : inputs) wanted.push_back(at(table, nb::cast<int>(input)));
    program_ = guarded([&] { return guards::GuardProgram::compile(table, set.release(), entry, wanted); });
  }

  bool check(nb::tuple locals, nb::object closure) {
    const Call call(locals, closure);
    return program_->check(call.locals.data(), call.closure);
  }
  // The values of the inputs, None when they are not known: right after a check that held.
  nb::object gathered() const {
    auto values = program_->gathered();
    return values ? nb::steal(values.release()) : nb::none();
  }
  // The same guards with latches of their own.
  Program copy() const { return Program(program_->copy()); }
  std::string explain(nb::tuple locals, nb::object closure) const {
    const Call call(locals, closure);
    return guarded([&] { return guards::GuardReport(*program_).explain(call.locals.data(), call.closure); });
  }
  nb::object first_miss(nb::tuple locals, nb::object closure) const {
    const Call call(locals, closure);
    const auto miss =
        guarded([&] { return guards::GuardReport(*program_).first_miss(call.locals.data(), call.closure); });
    return miss ? nb::object(as_dict(*miss)) : nb::none();
  }
  nb::list misses(nb::tuple locals, nb::object closure) const {
    const Call call(locals, closure);
    nb::list all;
    for (const guards::Miss& miss :
         guarded([&] { return guards::GuardReport(*program_).misses(call.locals.data(), call.closure); }))
      all.append(as_dict(miss));
    return all;
  }
  nb::list describe() const {
    nb::list rows;
    for (const auto& d : guards::GuardReport(*program_).describe()) {
      rows.append(nb::make_tuple(d.kind, d.source, d.source_kind, d.text, d.file, d.line, d.operation));
    }
    return rows;
  }
  nb::list code_parts() const {
    nb::list parts;
    for (const std::string& part : guarded([&] { return guards::GuardReport(*program_).code_parts(); }))
      parts.append(part);
    return parts;
  }
  nb::object constants() const {
    return guarded([&] { return nb::steal(guards::GuardReport(*program_).constants().release()); });
  }
  bool holds(std::size_t guard, nb::object value) const {
    return guards::GuardReport(*program_).holds(guard, value.ptr());
  }
  nb::list referents() const {  // what traverse() shows to the garbage collector
    nb::list seen;
    program_->traverse([](PyObject* object, void* list) { return PyList_Append(static_cast<PyObject*>(list), object); },
                       seen.ptr());
    return seen;
  }
  // Nanoseconds per check, all of which must pass.
  double time(nb::tuple locals, nb::object closure, int repeats) {
    const Call call(locals, closure);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) {
      if (!program_->check(call.locals.data(), call.closure)) fail(PyExc_AssertionError, "a guard does not hold");
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    return took.count() / repeats;
  }
  bool alive() const { return program_->alive(); }
  void clear() { program_->clear(); }
  std::size_t size() const { return program_->size(); }
  std::size_t hot_size() const { return program_->hot_size(); }

 private:
  explicit Program(std::unique_ptr<guards::GuardProgram> program) : program_(std::move(program)) {}
  std::unique_ptr<guards::GuardProgram> program_;
};

template <class F>
auto making(F step) {  // a SourceTable method that adds a step to a source
  return [step](SourceTable& table, int base, nb::object operand) {
    return guarded([&] { return (table.*step)(at(table, base), operand.ptr())->id; });
  };
}
template <class F>
auto making_plain(F step) {
  return [step](SourceTable& table, int base) { return guarded([&] { return (table.*step)(at(table, base))->id; }); };
}

nb::object evaluate(const SourceTable& table, int id, nb::tuple locals, nb::object closure) {
  const Call call(locals, closure);
  auto value = guarded([&] { return source::evaluate(at(table, id), call.locals.data(), call.closure); });
  if (!value) fail(PyExc_LookupError, "a step does not exist");
  return nb::steal(value.release());
}

}  // namespace

void add_guards(nb::module_& core) {
  nb::module_ m = core.def_submodule("_guards", "Sources and guard programs built by hand.");
  nb::class_<SourceTable>(m, "Table")
      .def(nb::init<>())
      .def("local", [](SourceTable& t, int slot,
                       nb::object name) { return guarded([&] { return t.local(slot, name.ptr())->id; }); })
      .def("free", [](SourceTable& t, int index,
                      nb::object name) { return guarded([&] { return t.free(index, name.ptr())->id; }); })
      .def(
          "constant",
          [](SourceTable& t, nb::object object) { return guarded([&] { return t.constant(object.ptr())->id; }); },
          nb::arg("object").none())
      .def("instance_attr", making(&SourceTable::instance_attr))
      .def("dict_item", making(&SourceTable::dict_item), nb::arg("base"), nb::arg("key").none())
      .def("member", making(&SourceTable::member))
      .def("dict_of", making_plain(&SourceTable::dict_of))
      .def("cell_contents", making_plain(&SourceTable::cell_contents))
      .def("item", [](SourceTable& t, int base,
                      std::int64_t index) { return guarded([&] { return t.item(at(t, base), index)->id; }); })
      .def("size_of", [](SourceTable& t, int base,
                         std::int64_t dim) { return guarded([&] { return t.size_of(at(t, base), dim)->id; }); })
      .def("stride_of", [](SourceTable& t, int base,
                           std::int64_t dim) { return guarded([&] { return t.stride_of(at(t, base), dim)->id; }); })
      .def("print", [](const SourceTable& t, int id) { return source::print(at(t, id)); })
      .def("evaluate", &evaluate, nb::arg("id"), nb::arg("locals"), nb::arg("closure") = nb::none())
      .def("__len__", &SourceTable::size);
  nb::class_<Program>(m, "Program")
      .def(nb::init<const SourceTable&, nb::list, nb::object, nb::list>(), nb::arg("table"), nb::arg("guards"),
           nb::arg("function") = nb::none(), nb::arg("inputs") = nb::list())
      .def("gathered", &Program::gathered)
      .def("copy", &Program::copy)
      .def("check", &Program::check, nb::arg("locals"), nb::arg("closure") = nb::none())
      .def("explain", &Program::explain, nb::arg("locals"), nb::arg("closure") = nb::none())
      .def("first_miss", &Program::first_miss, nb::arg("locals"), nb::arg("closure") = nb::none())
      .def("misses", &Program::misses, nb::arg("locals"), nb::arg("closure") = nb::none())
      .def("time", &Program::time, nb::arg("locals"), nb::arg("closure") = nb::none(), nb::arg("repeats") = 1000)
      .def("describe", &Program::describe)
      .def("code_parts", &Program::code_parts)
      .def("constants", &Program::constants)
      .def("holds", &Program::holds, nb::arg("guard"), nb::arg("value").none())
      .def("referents", &Program::referents)
      .def("alive", &Program::alive)
      .def("clear", &Program::clear)
      .def("hot_size", &Program::hot_size)
      .def("__len__", &Program::size);
}

}  // namespace pellucid::hooks
