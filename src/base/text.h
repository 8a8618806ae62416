// Small things about text that several modules need once each.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace pgweir {

/// ASCII only, as SQL's keywords, INI keys and HBA words compare.
bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept;
std::string to_lower(std::string_view text);
/// Without spaces, tabs, CR and LF at both ends.
std::string_view trimmed(std::string_view text) noexcept;
/// The pieces between separators, trimmed; empty pieces are kept.
std::vector<std::string_view> split(std::string_view text, char separator);
/// The parts one after another, in one allocation.
std::string concat(std::initializer_list<std::string_view> parts);
/// 'text' with quotes doubled, and E'' with backslashes doubled when there is one: safe whatever
/// standard_conforming_strings says.
std::string quote_literal(std::string_view text);
/// "text" with double quotes doubled.
std::string quote_identifier(std::string_view text);

}  // namespace pgweir
