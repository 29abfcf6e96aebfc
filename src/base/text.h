// Text for people, in UTF-8. What is added is ASCII: Python keeps and writes texts without other characters faster.
#pragma once
#include <string>

namespace pellucid {

// No longer than so many bytes, and never cut within a character. "..." stands for what is left out.
inline std::string shortened(std::string text, std::size_t longest) {
  if (text.size() <= longest) return text;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  while (longest > 0 && continues(text[longest])) --longest;
  text.resize(longest);
  return text.append("...");
}

}  // namespace pellucid
