#include "runtime/report.h"

#include "bytecode/makers.h"
#include "codegen/emit.h"
#include "guards/report.h"

namespace pellucid::runtime {
namespace {

using region::Capture;
using region::Effect;

std::string_view name_of(Effect::Kind kind) {
  switch (kind) {
    case Effect::Kind::SetList:
      return "SetList";
    case Effect::Kind::AppendToList:
      return "AppendToList";
    case Effect::Kind::SetDict:
      return "SetDict";
    case Effect::Kind::SetSet:
      return "SetSet";
    case Effect::Kind::SetDeque:
      return "SetDeque";
    case Effect::Kind::SetCell:
      return "SetCell";
    case Effect::Kind::SetAttr:
      return "SetAttr";
    case Effect::Kind::SetFrame:
      return "SetFrame";
    case Effect::Kind::SetGenerator:
      return "SetGenerator";
    case Effect::Kind::Advance:
      return "Advance";
    case Effect::Kind::Call:
      return "Call";
  }
  return "?";
}

// "L['self'].cache" of an object that existed before the region, else what it is.
std::string where(const Capture& capture, PyObject* object) {
  const auto known = capture.source_of.find(object);
  return known != capture.source_of.end() ? source::print(known->second) : source::describe(object);
}

// "SetAttr L['self'].count", "Advance L['it'] by 3". Values are left to the emitted code: they are not known yet.
std::string words_of(const Capture& capture, const Effect& effect) {
  std::string text(name_of(effect.kind));
  if (effect.kind == Effect::Kind::Call) return text + " " + source::describe(effect.value.get());
  text.append(" ").append(where(capture, effect.target.get()));
  if (effect.name) text.append(".").append(py::text_of(effect.name.get()));
  if (effect.kind == Effect::Kind::SetAttr && !effect.value) text.append(" (deleted)");
  if (effect.kind == Effect::Kind::Advance) {
    text.append(" by ").append(std::to_string(effect.count));
    if (effect.ends) text.append(" and to its end");
  }
  return text;
}

void put(PyObject* dict, const char* key, const py::Owned<>& value) {
  py::check(PyDict_SetItemString(dict, key, value.get()));
}

// Empty when there is none.
py::Owned<> find_attr(PyObject* object, const char* name) {
  PyObject* value = nullptr;
  if (_PyObject_LookupAttr(object, py::str(name).get(), &value) < 0) py::throw_pending();
  return py::Owned<>::steal(value);
}

py::Owned<> as_dict(const Capture& capture, const Entry& entry, const std::string& name, const trace::BreakInfo* stop) {
  auto region = py::take(PyDict_New());
  const bool has_graph = static_cast<bool>(entry.graph_call);
  put(region.get(), "name", py::str(name));
  put(region.get(), "code", py::Owned<>::share(capture.code.object()));
  put(region.get(), "begin", py::take(PyLong_FromLong(capture.starts_at)));
  put(region.get(), "end", where_it_ends(capture));
  put(region.get(), "stop",
      py::str(stop == nullptr
                  ? ""
                  : code_of(stop->reason) + " " + std::string(name_of(stop->reason)) + ": " + stop->message));
  put(region.get(), "graph", py::str(has_graph ? graph::print(capture.graph) : ""));
  put(region.get(), "guards", guard_rows(*entry.guards));
  put(region.get(), "effects", effect_rows(capture));
  put(region.get(), "emitted", py::str(codegen::describe(capture, name)));
  return region;
}

}  // namespace

py::Owned<> effect_rows(const Capture& capture) {
  auto rows = py::take(PyList_New(0));
  for (const Effect& effect : capture.effects)
    py::check(PyList_Append(rows.get(), py::str(words_of(capture, effect)).get()));
  return rows;
}

py::Owned<> where_it_ends(const Capture& capture) {
  if (!capture.exit) return py::take(Py_BuildValue("[(Oi)]", capture.code.object(), capture.returned_at));
  auto rows = py::take(PyList_New(0));
  for (const auto& frame : capture.exit->frames)
    py::check(PyList_Append(rows.get(), py::take(Py_BuildValue("(Oi)", frame.code.object(), frame.at)).get()));
  return rows;
}

py::Owned<> guard_rows(const guards::GuardProgram& guards) {
  auto rows = py::take(PyList_New(0));
  for (const auto& guard : guards::GuardReport(guards).describe())
    py::check(PyList_Append(rows.get(), guards::as_dict(guard).get()));
  return rows;
}

py::Owned<> guard_lines(const guards::GuardProgram& guards) {
  std::string text;
  for (const auto& guard : guards::GuardReport(guards).describe()) {
    if (!text.empty()) text += '\n';
    guards::add_line(text, guard);
  }
  return py::str(text);
}

py::Owned<> stack_makers_at(PyCodeObject* code, int offset) {
  auto offsets = py::take(PyList_New(0));
  const bytecode::DecodedCode& decoded = bytecode::decoded(code);
  const int index = decoded.index_at(offset);
  if (index < 0) return offsets;
  for (const int maker : bytecode::stack_makers(decoded, index)) {
    const int made_at = maker == bytecode::kManyMakers ? -1 : decoded[maker].offset;
    py::check(PyList_Append(offsets.get(), py::take(PyLong_FromLong(made_at)).get()));
  }
  return offsets;
}

void report_region(const Capture& capture, const Entry& entry, const std::string& name, PyObject* backend,
                   const trace::BreakInfo* stop) {
  auto function = find_attr(backend, "function");
  auto on_region = function ? find_attr(function.get(), "_on_region") : py::Owned<>();
  if (!on_region) return;
  const auto done = py::take(PyObject_CallOneArg(on_region.get(), as_dict(capture, entry, name, stop).get()));
}

}  // namespace pellucid::runtime
