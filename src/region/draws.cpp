#include "region/draws.h"

#include <algorithm>

#include "region/region.h"

namespace pellucid::region {

namespace {

// Whether it is a function of the program: what it draws comes in between.
bool calls_program(const graph::Node* node) {
  static PyObject* const is_of_program = py::import_attr("pellucid._draws", "is_of_program").release();
  PyObject* target = node->target.get();
  if (node->op != graph::Op::CallFunction || PyCFunction_Check(target)) return false;
  return py::take(PyObject_CallOneArg(is_of_program, target)).get() == Py_True;
}

}  // namespace

bool Draws::calls_only_torch() {
  const Capture& capture = *region_.capture;
  const auto& nodes = capture.graph.nodes();
  for (; !calls_program_ && looked_at_ < nodes.size(); ++looked_at_) calls_program_ = calls_program(nodes[looked_at_]);
  return !calls_program_ && capture.compliant_operators.empty() && capture.other_operators.empty();
}

py::Owned<> Draws::draw(PyObject* generator, PyObject* function, py::Owned<> arguments) {
  Capture& capture = *region_.capture;
  const Source* source = region_.provenance.source_of(generator);
  // What stands in a body runs again in the backward pass, and what a custom operator draws comes in between.
  const bool is_in_order = !capture.bodies->is_open() && region_.audits.empty() && calls_only_torch();
  if (source == nullptr || !is_in_order) return {};
  static PyObject* const ahead = py::import_attr("pellucid._draws", "ahead").release();
  static PyObject* const copy_of = py::import_attr("pellucid._draws", "copy_of").release();
  py::Owned<>& copy = copies_[generator];
  if (!copy) copy = py::take(PyObject_CallOneArg(copy_of, generator));
  if (copy.get() == Py_None) return {};
  const auto drawn = py::take(PyObject_CallFunctionObjArgs(ahead, copy.get(), function, arguments.get(), nullptr));
  if (drawn.get() == Py_None) return {};
  PyObject* value = nullptr;
  long long least = 0, most = 0;
  py::check(PyArg_ParseTuple(drawn.get(), "OLL", &value, &least, &most) != 0 ? 0 : -1);
  const Source* place = next_source();
  capture.draws.push_back({py::Owned<>::share(generator), source, py::Owned<>::share(function), std::move(arguments)});
  return region_.numbers.drawn(value, place, least, most);
}

const Source* Draws::next_source() {
  Capture& capture = *region_.capture;
  capture.drawn = capture.sources.drawn();
  return capture.sources.item(capture.drawn, static_cast<std::int64_t>(capture.draws.size()));
}

const Source* Draws::as_float(const Source* number) {
  const Source*& place = floats_[number];
  if (place != nullptr) return place;
  place = next_source();
  region_.capture->draws.push_back({{},
                                    number,
                                    py::Owned<>::share(reinterpret_cast<PyObject*>(&PyFloat_Type)),
                                    py::take(Py_BuildValue("(L)", static_cast<long long>(number->index)))});
  return place;
}

std::vector<const Source*> generators_of(const Capture& capture) {
  std::vector<const Source*> generators;
  for (const Draw& draw : capture.draws) {
    if (!draw.generator) continue;
    if (std::ranges::find(generators, draw.source) == generators.end()) generators.push_back(draw.source);
  }
  return generators;
}

}  // namespace pellucid::region
