#include <ATen/record_function.h>

#include "aten/aten.h"

namespace pellucid::aten {

struct ProfilerRange::Range {
  explicit Range(at::StepCallbacks&& listeners) : function(std::move(listeners)) {}
  at::RecordFunction function;
};

// Asked as torch's own operators ask, at each call: without the lock that at::hasCallbacks takes.
std::unique_ptr<ProfilerRange> ProfilerRange::if_asked_for() {
  auto listeners = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!listeners) return nullptr;
  return std::unique_ptr<ProfilerRange>(new ProfilerRange(std::make_unique<Range>(std::move(*listeners))));
}

ProfilerRange::ProfilerRange(std::unique_ptr<Range> range) : range_(std::move(range)) {}

ProfilerRange::~ProfilerRange() = default;

void ProfilerRange::begin(const std::string& name) { range_->function.before(name); }

}  // namespace pellucid::aten
