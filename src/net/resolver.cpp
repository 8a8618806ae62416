#include "net/resolver.h"

#include <netdb.h>

#include <algorithm>

#include "base/text.h"

namespace pgweir::net {

Resolver::~Resolver() {
  for (Request* request : requests_) {
    request->resolver = nullptr;
    (void)uv_cancel(reinterpret_cast<uv_req_t*>(&request->uv));
  }
  for (auto& [host, name] : names_) {
    while (NameUser* user = name->waiting.pop_front()) user->queue = nullptr;
  }
}

void Resolver::resolve(const std::string& host, NameUser& user) {
  if (names_.size() >= kNamesMax) forget_old();
  std::unique_ptr<Name>& slot = names_[host];
  if (!slot) {
    slot = std::make_unique<Name>();
    slot->host = host;
  }
  Name& name = *slot;
  if (!name.asked && name.believed_until > loop_.now()) {
    user.on_resolved(name.found);
    return;
  }
  name.waiting.push_back(user);
  user.queue = &name.waiting;
  if (!name.asked) ask(name);
}

void Resolver::ask(Name& name) {
  auto* request = new Request;
  request->resolver = this;
  request->name = &name;
  request->uv.data = request;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  const int status = uv_getaddrinfo(
      loop_.uv(), &request->uv,
      [](uv_getaddrinfo_t* uv, int result, addrinfo* found) {
        auto* done = static_cast<Request*>(uv->data);
        if (Resolver* self = done->resolver) {
          std::erase(self->requests_, done);
          self->answered(*done->name, result, found);
        }
        uv_freeaddrinfo(found);
        delete done;
      },
      name.host.c_str(), nullptr, &hints);
  if (status != 0) {
    delete request;
    answered(name, status, nullptr);
    return;
  }
  name.asked = true;
  requests_.push_back(request);
}

void Resolver::answered(Name& name, int status, const addrinfo* found) noexcept {
  name.asked = false;
  if (status == 0) {
    name.found = all_addresses(found, 0);
    name.believed_until = loop_.now() + ttl_;
  } else {
    name.found = Error(concat({"resolve ", name.host, ": ", uv_strerror(status)}));
    name.believed_until = loop_.now() + failure_ttl_;
  }
  while (NameUser* user = name.waiting.pop_front()) {
    user->queue = nullptr;
    user->on_resolved(name.found);
  }
}

std::vector<io::KnownName> Resolver::names() const {
  std::vector<io::KnownName> known;
  for (const auto& [host, name] : names_) {
    io::KnownName& row = known.emplace_back();
    row.host = host;
    row.pending = name->asked;
    row.believed_for = std::max(Duration{}, name->believed_until - loop_.now());
    if (!name->found.ok()) continue;
    for (const SocketAddress& address : *name->found) row.addresses.push_back(to_address(address).host);
  }
  std::sort(known.begin(), known.end(), [](const auto& a, const auto& b) { return a.host < b.host; });
  return known;
}

void Resolver::forget_old() noexcept {
  std::erase_if(names_, [this](const auto& entry) {
    return !entry.second->asked && entry.second->waiting.empty() &&
           entry.second->believed_until <= loop_.now();
  });
}

}  // namespace pgweir::net
