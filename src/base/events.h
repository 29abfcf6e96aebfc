// The stream of events: what happened, in order, as plain data. Explain, the bench and the logs are readers of this one
// list. It knows neither Python nor torch. Writing takes a lock, so nothing on the hit path writes.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pellucid::events {

struct Number {
  std::string_view name;  // a literal
  double value;
};

struct Event {
  std::int64_t serial = 0;       // position in the stream, from 0
  std::int64_t nanoseconds = 0;  // steady clock
  std::uint64_t thread = 0;
  std::string_view kind;  // a literal: "capture", "backend", "emit", "entry", "stop", "miss", …
  std::string text;
  std::vector<Number> numbers;
};

// The newest kKept events are kept; older ones are dropped.
inline constexpr std::size_t kKept = 4096;

void record(std::string_view kind, std::string text, std::initializer_list<Number> numbers = {});
std::vector<Event> since(std::int64_t serial);  // events with this serial or a later one
std::int64_t next_serial();
void clear();  // forgets the kept events; serials go on

std::int64_t now() noexcept;  // nanoseconds of the steady clock
inline double milliseconds_since(std::int64_t start) { return static_cast<double>(now() - start) / 1e6; }

// Totals since the last reset_counters().
enum class Counter : std::uint8_t {
  Captures,
  Entries,
  Graphs,
  Ops,
  Guards,
  Instructions,
  Stops,
  Recompiles,
  LimitHits,
  KeptBytes,
  kCount
};
void count(Counter counter, std::int64_t by = 1) noexcept;
std::vector<std::pair<std::string_view, std::int64_t>> counters();
void reset_counters() noexcept;

// What each phase of compiling took, since the last clear_timings(): a row for each time that it ran, oldest first.
// Unlike events these are all kept.
struct Timing {
  std::string_view phase;  // a literal
  double milliseconds;
  std::string function;  // of the whole
};
void time(std::string_view phase, double milliseconds, std::string function = {});
std::vector<Timing> timings();
void clear_timings();

// While it is alive the times that this thread notes are also summed up here, by phase; an inner one has its own.
class TimesOfCompile {
 public:
  TimesOfCompile() noexcept;
  ~TimesOfCompile();
  TimesOfCompile(const TimesOfCompile&) = delete;
  TimesOfCompile& operator=(const TimesOfCompile&) = delete;
  void add(std::string_view phase, double milliseconds);
  const std::vector<Number>& sums() const noexcept { return sums_; }

 private:
  std::vector<Number> sums_;  // in the order in which the phases came
  TimesOfCompile* outer_;
};

}  // namespace pellucid::events
