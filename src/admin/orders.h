// The commands that change something, and those that only please drivers.
#pragma once

#include "admin/commands.h"

namespace pgweir::admin {

/// PAUSE, RESUME, KILL, …: checks the argument, then hands the order to the World.
Result<Answer> give_order(const Call& call);
Result<Answer> set_setting(const Call& call);
Result<Answer> show_help(const Call& call);
/// SHOW FDS: nobody takes our sockets over.
Result<Answer> refuse_fds(const Call& call);
/// The answer to SHOW of a parameter that every PostgreSQL connection has.
Result<Answer> show_fixed(const Call& call);

/// Whether SET of this parameter is accepted and ignored: drivers send them unasked.
bool is_ignored_set(std::string_view name) noexcept;

struct SetText {
  std::string name;
  std::string value;
};
/// "k = v", "k TO 'v'", "k=v".
std::optional<SetText> parse_set(std::string_view text);

}  // namespace pgweir::admin
