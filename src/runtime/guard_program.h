// The guard program of an entry. Until the room guards has it, a stand-in that lets the rest be built.
#pragma once
#include "objects/capture.h"
#if __has_include("guards/program.h")
#include "guards/program.h"
namespace pellucid::runtime {
inline std::unique_ptr<guards::GuardProgram> make_guard_program(objects::Capture& capture) {
  return guards::GuardProgram::compile(capture.sources, capture.guards.release(), capture.function.get());
}
inline std::vector<std::string> guard_texts(const guards::GuardProgram& program) { return program.code_parts(); }
}  // namespace pellucid::runtime
#else
#include "guards/guard.h"
namespace pellucid::guards {
class GuardProgram {
 public:
  bool check(PyObject* const*, PyObject*) noexcept { return false; }
  bool alive() const noexcept { return true; }
  std::string explain(PyObject* const*, PyObject*) const { return ""; }
  int traverse(visitproc, void*) const { return 0; }
  void clear() {}
};
}  // namespace pellucid::guards
namespace pellucid::runtime {
inline std::unique_ptr<guards::GuardProgram> make_guard_program(objects::Capture&) { return std::make_unique<guards::GuardProgram>(); }
inline std::vector<std::string> guard_texts(const guards::GuardProgram&) { return {}; }
}  // namespace pellucid::runtime
#endif
