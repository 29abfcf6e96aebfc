// Captures that outlive a process (config.capture_cache_dir, docs/capture-cache.md). One of these is made for each
// compile of a function from its start: it looks for a region that an earlier process has kept, and keeps the one that
// is captured now. Files and their names are the business of pellucid._capture_cache.
#pragma once
#include <Python.h>

#include <memory>
#include <string>

#include "py/ref.h"
#include "region/capture.h"
#include "runtime/cache.h"
#include "trace/trace.h"

namespace pellucid::runtime {

class CaptureCache {
 public:
  CaptureCache(PyFunctionObject* function, PyObject* const* locals, Cache& cache, bool fullgraph);
  ~CaptureCache();
  CaptureCache(const CaptureCache&) = delete;
  CaptureCache& operator=(const CaptureCache&) = delete;

  // The compile on this thread that is innermost; null: nothing is kept.
  static CaptureCache* here() noexcept;

  // An entry that holds for this call; null: none is kept that does. The program was not traced then.
  std::unique_ptr<Entry> load();
  // A finished capture, before its guards are given away. `stop`: why it ends before the program does, if so.
  void note(const Cache& cache, const region::Capture& capture, const trace::BreakInfo* stop);
  // The capture that was noted last became an entry.
  void keep();

 private:
  std::unique_ptr<Entry> entry_of(PyObject* bytes);
  void tell(const char* what, const std::string& why) const;

  PyFunctionObject* function_;
  PyObject* const* locals_;
  Cache& cache_;
  py::Owned<> key_;  // empty: no folder, or nothing is to be kept of this function
  std::string bytes_, unkept_;
  CaptureCache* outer_ = nullptr;
};

}  // namespace pellucid::runtime
