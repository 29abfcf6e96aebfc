#include "base/break_policy.h"

namespace pellucid::break_policy {
namespace {
thread_local std::vector<char> blocks;
}  // namespace

bool break_is_error() noexcept { return !blocks.empty() && blocks.back() != 0; }
void open_block(bool error) { blocks.push_back(error ? 1 : 0); }
void close_block() noexcept {
  if (!blocks.empty()) blocks.pop_back();
}

Keeper::Keeper() : before_(blocks) {}
Keeper::~Keeper() { blocks.swap(before_); }

}  // namespace pellucid::break_policy
