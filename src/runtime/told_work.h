// Progress of long work, as config.progress asks for it.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "base/progress.h"

namespace pellucid::runtime {

// config.progress, for people who look at a terminal that is still Python's own standard error.
std::optional<progress::Work> told_work(const std::function<std::string()>& what);

}  // namespace pellucid::runtime
