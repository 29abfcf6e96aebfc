// A test framework of forty lines: TEST("name") { CHECK(condition); CHECK_EQ(a, b); CHECK_THROWS(Type, expression); }
// A failed check is printed with its place and values, the test goes on, and the run fails.
#pragma once
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace unit {

struct Test {
  const char* name;
  void (*body)();
};
std::vector<Test>& all();
void fail(const char* file, int line, const std::string& what);

struct Register {
  Register(const char* name, void (*body)()) { all().push_back({name, body}); }
};

template <class T>
std::string shown(const T& value) {
  if constexpr (requires(std::ostringstream & out) { out << value; }) {
    std::ostringstream out;
    out << value;
    return out.str();
  } else {
    return "?";
  }
}

template <class A, class B>
void check_eq(const A& a, const B& b, const char* text, const char* file, int line) {
  if (!(a == b)) fail(file, line, std::string(text) + "\n    left:  " + shown(a) + "\n    right: " + shown(b));
}

}  // namespace unit

#define UNIT_JOIN2(a, b) a##b
#define UNIT_JOIN(a, b) UNIT_JOIN2(a, b)
#define TEST(name)                                                                              \
  static void UNIT_JOIN(test_, __LINE__)();                                                     \
  static const unit::Register UNIT_JOIN(register_, __LINE__)(name, UNIT_JOIN(test_, __LINE__)); \
  static void UNIT_JOIN(test_, __LINE__)()
#define CHECK(condition) ((condition) ? void() : unit::fail(__FILE__, __LINE__, #condition))
#define CHECK_EQ(a, b) unit::check_eq((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_THROWS(Type, ...)                                                 \
  do {                                                                          \
    bool thrown = false;                                                        \
    try {                                                                       \
      (void)(__VA_ARGS__);                                                      \
    } catch (const Type&) {                                                     \
      thrown = true;                                                            \
    }                                                                           \
    if (!thrown) unit::fail(__FILE__, __LINE__, "no " #Type ": " #__VA_ARGS__); \
  } while (false)
