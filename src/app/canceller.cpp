#include "app/canceller.h"

#include <algorithm>
#include <optional>

#include "base/ip.h"
#include "protocol/proxy_header.h"
#include "protocol/writer.h"

namespace pgweir::app {

void Canceller::Errand::on_connected() noexcept {
  connected = true;
  const io::Address own = transport->local();
  const std::optional<IpAddress> ip = own.kind == io::Address::Kind::tcp ? parse_ip(own.host) : std::nullopt;
  if (ip && proxied.holds(*ip)) {
    std::string header;
    protocol::append_proxy_local(header);
    transport->send(header);
  }
  transport->send(packet);
}

std::size_t Canceller::standing(std::uint64_t id) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(errands_.begin(), errands_.end(), [&](const auto& errand) {
        return errand->server_id == id && errand->connected && !errand->closed;
      }));
}

bool Canceller::send(std::uint64_t server_id, ClientId asker, const io::Address& node,
                     const io::DialTls& tls, const session::CancelKey& backend, Time deadline,
                     const config::NetworkList& proxied) {
  if (errands_.size() >= kErrandsMax) return false;
  Errand& errand = *errands_.emplace_back(std::make_unique<Errand>());
  errand.server_id = server_id;
  errand.asker = asker;
  errand.deadline = deadline;
  errand.proxied = proxied;
  protocol::append_cancel(errand.packet, backend.pid, backend.key);
  errand.transport = dialer_.dial(node, errand, tls);
  return true;
}

Time Canceller::turn(Time now) noexcept {
  Time next = kNever;
  for (std::size_t i = 0; i < errands_.size();) {
    Errand& errand = *errands_[i];
    if (!errand.closed && now < errand.deadline) {
      next = std::min(next, errand.deadline);
      ++i;
      continue;
    }
    const std::unique_ptr<Errand> ended = std::move(errands_[i]);
    errands_.erase(errands_.begin() + static_cast<std::ptrdiff_t>(i));
    user_.cancel_ended(ended->server_id, ended->asker, !ended->closed);
  }
  return next;
}

}  // namespace pgweir::app
