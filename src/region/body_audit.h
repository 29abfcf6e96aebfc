// Whether the function whose graph is a body has changed anything but tensors: it runs at another time, or another
// number of times, than it is captured. What existed before the region is counted where it is written; what the region
// made before the body is compared with how it was.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "region/region.h"

namespace pellucid::region {

// What the collector sees of an object. A function's namespaces are the program's, which counts what it writes there.
std::vector<py::Owned<>> parts_of(PyObject* object);

class BodyAudit {
 public:
  // `roots`: the function and its arguments.
  BodyAudit(Region& region, const std::vector<PyObject*>& roots);
  // What it has changed; null: nothing.
  const char* change() const;
  // Whether it has read what the region changed: that shows only behind the graph.
  bool has_read_changed() const { return region_.reads_of_written != reads_before_; }
  // Whether the region has since changed what it made and the function reaches: `change()` when it was closed was null,
  // and it had read nothing that was changed before.
  bool is_changed_since() const { return is_changed(reached_); }

  // What the function reads of what existed before, which may be another thing when it runs again.
  struct LateRead {
    const Source* source;
    py::Owned<PyCodeObject> code;
    int offset;
  };
  void note_read(const Source* source);
  const std::vector<LateRead>& reads() const { return reads_; }

 private:
  struct Seen {
    py::Owned<> object;
    std::vector<py::Owned<>> parts;
  };
  bool is_followed(PyObject* object) const;
  void see(std::vector<PyObject*> open);
  bool is_changed(std::size_t count) const;

  Region& region_;
  const std::int64_t writes_before_, reads_before_;
  const std::unique_ptr<aten::GlobalState> state_before_;
  std::vector<Seen> seen_;
  std::size_t reached_ = 0;  // that many of them without reading what the region has changed of what existed before
  std::unordered_set<PyObject*> met_;
  bool reaches_iterator_ = false;
  std::vector<LateRead> reads_;
  std::unordered_set<const Source*> sources_;
};

}  // namespace pellucid::region
