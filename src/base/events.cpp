#include "base/events.h"

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace pellucid::events {
namespace {

constexpr std::size_t kCounters = static_cast<std::size_t>(Counter::kCount);
constexpr std::array<std::string_view, kCounters> kCounterNames = {"captures",   "entries",      "graphs", "ops",
                                                                   "guards",     "instructions", "stops",  "recompiles",
                                                                   "limit_hits", "kept_bytes"};

struct Stream {
  std::mutex mutex;
  std::deque<Event> kept;
  std::int64_t next = 0;
  std::vector<Timing> timings;
  std::array<std::atomic<std::int64_t>, kCounters> totals{};
};
Stream& stream() {
  static Stream* const all = new Stream;  // never destroyed: events may come while the process ends
  return *all;
}

thread_local TimesOfCompile* innermost = nullptr;

}  // namespace

std::int64_t now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void record(std::string_view kind, std::string text, std::initializer_list<Number> numbers) {
  Event event;
  event.nanoseconds = now();
  event.thread = std::hash<std::thread::id>{}(std::this_thread::get_id());
  event.kind = kind;
  event.text = std::move(text);
  event.numbers.assign(numbers);
  Stream& all = stream();
  const std::lock_guard lock(all.mutex);
  event.serial = all.next++;
  all.kept.push_back(std::move(event));
  if (all.kept.size() > kKept) all.kept.pop_front();
}

std::vector<Event> since(std::int64_t serial) {
  Stream& all = stream();
  const std::lock_guard lock(all.mutex);
  std::vector<Event> found;
  for (const Event& event : all.kept) {
    if (event.serial >= serial) found.push_back(event);
  }
  return found;
}

std::int64_t next_serial() {
  Stream& all = stream();
  const std::lock_guard lock(all.mutex);
  return all.next;
}

void clear() {
  Stream& all = stream();
  const std::lock_guard lock(all.mutex);
  all.kept.clear();
}

void count(Counter counter, std::int64_t by) noexcept {
  stream().totals[static_cast<std::size_t>(counter)].fetch_add(by, std::memory_order_relaxed);
}

std::vector<std::pair<std::string_view, std::int64_t>> counters() {
  std::vector<std::pair<std::string_view, std::int64_t>> found;
  for (std::size_t i = 0; i < kCounters; ++i) found.emplace_back(kCounterNames[i], stream().totals[i].load());
  return found;
}

void reset_counters() noexcept {
  for (auto& total : stream().totals) total.store(0);
}

void time(std::string_view phase, double milliseconds, std::string function) {
  if (innermost != nullptr) innermost->add(phase, milliseconds);
  Stream& all = stream();
  const std::lock_guard lock(all.mutex);
  all.timings.push_back({phase, milliseconds, std::move(function)});
}

std::vector<Timing> timings() {
  Stream& all = stream();
  const std::lock_guard lock(all.mutex);
  return all.timings;
}

void clear_timings() {
  Stream& all = stream();
  const std::lock_guard lock(all.mutex);
  all.timings.clear();
}

TimesOfCompile::TimesOfCompile() noexcept : outer_(std::exchange(innermost, this)) {}

TimesOfCompile::~TimesOfCompile() { innermost = outer_; }

void TimesOfCompile::add(std::string_view phase, double milliseconds) {
  for (Number& sum : sums_) {
    if (sum.name != phase) continue;
    sum.value += milliseconds;
    return;
  }
  sums_.push_back({phase, milliseconds});
}

}  // namespace pellucid::events
