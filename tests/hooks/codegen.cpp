// pellucid._core._codegen: captures made by hand, to test the emitted functions without a tracer.
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>

#include "base/reasons.h"
#include "codegen/emit.h"
#include "hooks.h"
#include "py/ref.h"
#include "py/set_table.h"

namespace nb = nanobind;

namespace pellucid::hooks {
namespace {

using region::Capture;
using region::Effect;
using source::Source;

// A graph break is a ValueError.
template <class F>
auto without_break(F&& body) {
  return guarded([&] {
    try {
      return body();
    } catch (const GraphBreak& stop) {
      PyErr_SetString(PyExc_ValueError, (std::string(name_of(stop.reason())) + ": " + stop.message()).c_str());
      py::throw_pending();
    }
  });
}

nb::object handed(py::Owned<> object) { return nb::steal(object.release()); }
py::Owned<> shared(nb::handle object) { return py::Owned<>::share(object.ptr()); }

// A capture under construction. Paths are nested tuples: ("attr", ("local", 0, "self"), "weight").
class HandMade {
 public:
  explicit HandMade(nb::handle function) {
    if (!PyFunction_Check(function.ptr())) throw nb::type_error("a Python function is needed");
    capture_.function = py::Owned<PyFunctionObject>::share(reinterpret_cast<PyFunctionObject*>(function.ptr()));
    capture_.code =
        py::Owned<PyCodeObject>::share(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.ptr())));
  }

  void source(nb::handle object, nb::tuple path) {
    without_break([&] { remember(object.ptr(), source_of(path)); });
  }
  // A graph input that is loaded from `path`.
  void input(nb::handle object, nb::tuple path) {
    without_break([&] {
      const Source* from = source_of(path);
      remember(object.ptr(), from);
      capture_.node_of[object.ptr()] = capture_.graph.placeholder("arg", shared(object), from->id, "arg");
    });
  }
  // `object` stands for the value of a call of `target` on `inputs` (objects that have nodes).
  void node(nb::handle object, nb::handle target, nb::tuple inputs) {
    without_break([&] {
      std::vector<graph::Arg> args;
      for (nb::handle input : inputs) args.push_back(graph::Arg::of(capture_.node_of.at(input.ptr())));
      capture_.node_of[object.ptr()] =
          capture_.graph.call(graph::Op::CallFunction, shared(target), std::move(args), {}, shared(object));
      capture_.alive.push_back(shared(object));
    });
  }
  void effect(const std::string& kind, nb::handle target, nb::handle value, nb::handle name, nb::handle args,
              nb::handle kwargs) {
    Effect made{.kind = kind_of(kind)};
    made.target = shared(target);
    if (value.ptr() != missing()) made.value = shared(value);
    // As a capture makes it.
    if (made.kind == Effect::Kind::SetSet) made.value = py::copy_with_table(value.ptr(), region::kNotPopped);
    if (!name.is_none()) made.name = shared(name);
    if (!args.is_none()) made.args = shared(args);
    if (!kwargs.is_none()) made.kwargs = shared(kwargs);
    capture_.effects.push_back(std::move(made));
  }
  void finish(nb::handle result) {
    capture_.result = shared(result);
    without_break([&] { codegen::finish_graph(capture_); });
  }
  nb::object emit(nb::handle compiled, const std::string& name) {
    return without_break([&] {
      auto function = codegen::emit(capture_, compiled.is_none() ? nullptr : compiled.ptr(), name).function;
      return handed(py::Owned<>::steal(reinterpret_cast<PyObject*>(function.release())));
    });
  }
  std::string describe(const std::string& name) {
    return without_break([&] { return codegen::describe(capture_, name); });
  }
  nb::list outputs() {
    nb::list objects;
    for (const graph::Node* node : capture_.graph.outputs()) objects.append(nb::borrow(node->example_value.get()));
    return objects;
  }
  static PyObject* missing() { return Py_Ellipsis; }

 private:
  void remember(PyObject* object, const Source* from) {
    capture_.source_of.emplace(object, from);
    capture_.alive.push_back(py::Owned<>::share(object));
  }

  const Source* source_of(nb::handle path) {
    auto parts = nb::borrow<nb::tuple>(path);
    const std::string step = nb::cast<std::string>(parts[0]);
    source::SourceTable& table = capture_.sources;
    if (step == "local") return table.local(nb::cast<int>(parts[1]), nb::object(parts[2]).ptr());
    if (step == "free") return table.free(nb::cast<int>(parts[1]), nb::object(parts[2]).ptr());
    if (step == "const") return table.constant(nb::object(parts[1]).ptr());
    const Source* base = source_of(parts[1]);
    if (step == "dict") return table.dict_of(base);
    if (step == "cell") return table.cell_contents(base);
    if (step == "item") return table.item(base, nb::cast<std::int64_t>(parts[2]));
    if (step == "size") return table.size_of(base, nb::cast<std::int64_t>(parts[2]));
    if (step == "stride") return table.stride_of(base, nb::cast<std::int64_t>(parts[2]));
    const nb::object operand = parts[2];
    if (step == "attr") return table.instance_attr(base, operand.ptr());
    if (step == "key") return table.dict_item(base, operand.ptr());
    if (step == "member") return table.member(base, operand.ptr());
    throw nb::value_error(("unknown step " + step).c_str());
  }

  static Effect::Kind kind_of(const std::string& name) {
    constexpr std::pair<const char*, Effect::Kind> kKinds[] = {
        {"SetList", Effect::Kind::SetList},   {"SetDict", Effect::Kind::SetDict}, {"SetSet", Effect::Kind::SetSet},
        {"SetDeque", Effect::Kind::SetDeque}, {"SetCell", Effect::Kind::SetCell}, {"SetAttr", Effect::Kind::SetAttr},
        {"Call", Effect::Kind::Call}};
    for (const auto& [text, kind] : kKinds) {
      if (name == text) return kind;
    }
    throw nb::value_error(("unknown effect " + name).c_str());
  }

  Capture capture_;
};

}  // namespace

void add_codegen(nb::module_& core) {
  nb::module_ m = core.def_submodule("_codegen", "Captures made by hand and the functions emitted for them.");
  nb::class_<HandMade>(m, "Capture")
      .def(nb::init<nb::handle>(), nb::arg("function"))
      .def("source", &HandMade::source, nb::arg("object"), nb::arg("path"))
      .def("input", &HandMade::input, nb::arg("object"), nb::arg("path"))
      .def("node", &HandMade::node, nb::arg("object"), nb::arg("target"), nb::arg("inputs"))
      .def("effect", &HandMade::effect, nb::arg("kind"), nb::arg("target"), nb::arg("value").none() = nb::ellipsis(),
           nb::arg("name") = nb::none(), nb::arg("args") = nb::none(), nb::arg("kwargs") = nb::none())
      .def("finish", &HandMade::finish, nb::arg("result").none())
      .def("emit", &HandMade::emit, nb::arg("compiled").none(), nb::arg("name") = "__compiled_fn_0")
      .def("describe", &HandMade::describe, nb::arg("name") = "__compiled_fn_0")
      .def("outputs", &HandMade::outputs);
}

}  // namespace pellucid::hooks
