#include <ATen/record_function.h>

#include "aten/aten.h"

namespace pellucid::aten {

struct ProfilerRange::Range {
  at::RecordFunction function{at::RecordScope::USER_SCOPE};
};

bool ProfilerRange::is_asked_for() noexcept { return at::hasCallbacks() && at::isRecordFunctionEnabled(); }

ProfilerRange::ProfilerRange(const std::string& name) : range_(std::make_unique<Range>()) {
  if (range_->function.isActive()) range_->function.before(name);
}

ProfilerRange::~ProfilerRange() = default;

}  // namespace pellucid::aten
