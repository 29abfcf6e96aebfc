// Where the program is, as a node of the graph says it.
#include "base/small_vector.h"
#include "py/cpython.h"
#include "py/gil.h"
#include "region/recorder.h"
#include "region/region.h"

namespace pellucid::region {
namespace {

// Empty: the frame runs neither what torch.fx made of a graph nor what we did.
py::Owned<> graph_module_of(const Frame& frame) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(frame.code->co_filename, &length);
  if (text == nullptr) PyErr_Clear();
  if (text == nullptr) return {};
  const std::string_view file(text, static_cast<std::size_t>(length));
  if (file == "<pellucid graph>") {
    static PyObject* const name = py::interned("__graph_module__").release();
    return py::Owned<>::share(py::dict_get_str(frame.globals, name));
  }
  if (!file.starts_with("<eval_with_key>") || frame.code->co_argcount == 0 || !frame.fast[0]) return {};
  auto weak = py::Owned<>::steal(PyWeakref_NewRef(frame.fast[0].get(), nullptr));
  if (!weak) PyErr_Clear();
  return weak;
}

}  // namespace

std::string words_of_call(const graph::CallSite& where) {
  const py::Gil gil;  // torch asks without it
  static PyObject* const text_at = py::import_attr("pellucid.errors", "_text_at").release();
  const auto offset = py::take(PyLong_FromLong(where.offset));
  const auto text = py::take(PyObject_CallFunctionObjArgs(text_at, where.code.get(), offset.get(), nullptr));
  return py::text_of(text.get());
}

std::shared_ptr<const graph::CallSite> Recorder::call_site() {
  // Innermost user frame first; each level is cached in its frame while that frame stays at the same instruction.
  SmallVector<Frame*, 128> frames;
  for (Frame* f = region_.top; f != nullptr; f = f->back.get()) {
    if (!f->hidden) frames.push_back(f);
  }
  std::shared_ptr<const graph::CallSite> caller;
  for (; !frames.empty(); frames.pop_back()) {
    Frame* const f = frames.back();
    if (f->site_at != f->at || f->site == nullptr || f->site->caller != caller) {
      auto site = std::make_shared<graph::CallSite>();
      site->code = py::Owned<PyCodeObject>::share(f->code.get());
      site->offset = f->at;
      site->caller = caller;
      site->module_path = f->module_path;
      site->module_key = f->module_key;
      site->module_type = f->module_type.copy();
      site->graph_module = graph_module_of(*f);
      f->site = std::move(site);
      f->site_at = f->at;
    }
    caller = f->site;
  }
  return caller;
}

}  // namespace pellucid::region
