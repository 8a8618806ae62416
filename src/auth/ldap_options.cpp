#include "auth/ldap_options.h"

#include <charconv>

#include "base/text.h"

namespace pgweir::auth {
namespace {

Result<int> parse_port(std::string_view text) {
  int port = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (problem != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535)
    return Error(concat({"ldapport = \"", text, "\": expected 1 to 65535"}));
  return port;
}

/// %41 for A, as URLs write what is special in them.
std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

void use_servers(LdapOptions& options, std::string_view text) {
  options.servers.clear();
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) options.servers.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
}

/// ldap[s]://host[:port]/basedn[?[attribute][?[scope][?[filter]]]]
Status use_url(LdapOptions& options, std::string_view url) {
  const auto bad = [&](std::string_view reason) { return Error(concat({"ldapurl = \"", url, "\": ", reason})); };
  std::string_view rest = url;
  const std::size_t scheme_end = rest.find("://");
  if (scheme_end == std::string_view::npos) return bad("expected ldap://host/basedn?attribute?scope?filter");
  options.scheme = rest.substr(0, scheme_end);
  if (options.scheme != "ldap" && options.scheme != "ldaps") return bad("expected ldap:// or ldaps://");
  rest.remove_prefix(scheme_end + 3);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view host = rest.substr(0, slash);
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  const std::size_t bracket = host.rfind(']');
  if (const std::size_t colon = host.rfind(':');
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    const Result<int> port = parse_port(host.substr(colon + 1));
    if (!port) return bad(port.error().text());
    options.port = *port;
    host = host.substr(0, colon);
  }
  if (!host.empty()) options.servers.assign(1, percent_decoded(host));
  std::string_view parts[4];
  for (std::string_view& part : parts) {
    const std::size_t end = std::min(rest.find('?'), rest.size());
    part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!parts[0].empty()) options.base_dn = percent_decoded(parts[0]);
  if (!parts[1].empty()) options.search_attribute = percent_decoded(parts[1]);
  if (parts[2] == "base") {
    options.scope = LdapOptions::Scope::base;
  } else if (parts[2] == "one") {
    options.scope = LdapOptions::Scope::one;
  } else if (parts[2] == "sub") {
    options.scope = LdapOptions::Scope::sub;
  } else if (!parts[2].empty()) {
    return bad("expected the scope base, one or sub");
  }
  if (!parts[3].empty()) options.search_filter = percent_decoded(parts[3]);
  return {};
}

Status take(LdapOptions& options, std::string_view name, const std::string& value) {
  if (name == "ldapserver") {
    use_servers(options, value);
  } else if (name == "ldapport") {
    const Result<int> port = parse_port(value);
    if (!port) return port.error();
    options.port = *port;
  } else if (name == "ldaptls") {
    if (value != "0" && value != "1") return Error(concat({"ldaptls = \"", value, "\": expected 0 or 1"}));
    options.start_tls = value == "1";
  } else if (name == "ldapscheme") {
    if (value != "ldap" && value != "ldaps") return Error(concat({"ldapscheme = \"", value, "\": expected ldap or ldaps"}));
    options.scheme = value;
  } else if (name == "ldapprefix") {
    options.prefix = value;
  } else if (name == "ldapsuffix") {
    options.suffix = value;
  } else if (name == "ldapbasedn") {
    options.base_dn = value;
  } else if (name == "ldapbinddn") {
    options.bind_dn = value;
  } else if (name == "ldapbindpasswd") {
    options.bind_password = value;
  } else if (name == "ldapsearchattribute") {
    options.search_attribute = value;
  } else if (name == "ldapsearchfilter") {
    options.search_filter = value;
  } else if (name == "ldapurl") {
    return use_url(options, value);
  } else {
    return Error(concat({"unknown option ", name}));
  }
  return {};
}

}  // namespace

Result<LdapOptions> parse_ldap_options(const std::vector<Field>& fields) {
  LdapOptions options;
  for (const Field& field : fields) {
    for (const Word& word : field) {
      const std::size_t equals = word.text.find('=');
      if (equals == std::string::npos) return Error("expected name=value");  // What stands there may be part of a password.
      if (Status ok = take(options, std::string_view(word.text).substr(0, equals), word.text.substr(equals + 1)); !ok)
        return ok.error();
    }
  }
  if (options.servers.empty()) return Error("expected ldapserver= or a host in ldapurl=");
  const bool simple = !options.prefix.empty() || !options.suffix.empty();
  if (simple && options.searches()) return Error("ldapprefix and ldapsuffix don't go with ldapbasedn");
  if (!simple && !options.searches()) return Error("expected ldapbasedn=, or ldapprefix= or ldapsuffix=");
  if (!options.search_attribute.empty() && !options.search_filter.empty())
    return Error("ldapsearchattribute and ldapsearchfilter don't go together");
  return options;
}

Result<LdapOptions> parse_ldap_options(std::string_view text) {
  const Result<std::vector<Field>> fields = read_fields(text);
  if (!fields) return fields.error();
  return parse_ldap_options(*fields);
}

std::string LdapOptions::uris() const {
  std::string text;
  for (const std::string& server : servers) {
    if (!text.empty()) text += ' ';
    text += concat({scheme, "://", server, ":", std::to_string(port_or_usual())});
  }
  return text;
}

std::string LdapOptions::dn_of(std::string_view user) const {
  // What is special in a DN (RFC 4514) would let a name say more than a name.
  std::string escaped;
  for (std::size_t i = 0; i < user.size(); ++i) {
    const char c = user[i];
    const bool edge = (i == 0 && (c == ' ' || c == '#')) || (i + 1 == user.size() && c == ' ');
    if (edge || std::string_view("\",+;<=>\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return concat({prefix, escaped, suffix});
}

std::string LdapOptions::filter_for(std::string_view user) const {
  std::string escaped;
  for (const char c : user) {  // RFC 4515
    if (std::string_view("*()\\").find(c) != std::string_view::npos || c == '\0') {
      const auto byte = static_cast<unsigned char>(c);
      escaped += '\\';
      escaped += "0123456789abcdef"[byte >> 4];
      escaped += "0123456789abcdef"[byte & 15];
    } else {
      escaped += c;
    }
  }
  if (search_filter.empty())
    return concat({"(", search_attribute.empty() ? std::string_view("uid") : search_attribute, "=", escaped, ")"});
  static constexpr std::string_view kPlace = "$username";
  std::string filter = search_filter;
  for (std::size_t at = filter.find(kPlace); at != std::string::npos; at = filter.find(kPlace, at + escaped.size()))
    filter.replace(at, kPlace.size(), escaped);
  if (filter.front() != '(') filter = concat({"(", filter, ")"});
  return filter;
}

}  // namespace pgweir::auth
