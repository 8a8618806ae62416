#include "sim_network.h"

#include <algorithm>

#include "base/text.h"

namespace pgweir::sim {
namespace {

constexpr std::size_t kReadMax = 65536;
constexpr std::size_t kGatherMax = 16384;
constexpr Duration kCloseFlushTime = std::chrono::seconds{5};

}  // namespace

/// An accepted connection that nobody has taken yet.
class SimDoor final : public io::Door {
 public:
  explicit SimDoor(std::shared_ptr<Link> link) : link_(std::move(link)) {}
  ~SimDoor() override {
    if (link_) link_->reset("connection reset by peer");
  }
  std::unique_ptr<io::Transport> admit(io::TransportUser& user) noexcept override {
    return std::make_unique<SimTransport>(std::move(link_), 1, user);
  }

 private:
  std::shared_ptr<Link> link_;
};

class SimListener final : public io::Listener {
 public:
  SimListener(SimNetwork& network, io::Address address)
      : network_(network), address_(std::move(address)) {}
  ~SimListener() override { network_.doors_.erase(address_); }
  std::string name() const override {
    return concat({address_.host, ":", std::to_string(address_.port)});
  }

 private:
  SimNetwork& network_;
  io::Address address_;
};

// ---- the ends

SimTransport::SimTransport(std::shared_ptr<Link> link, int side, io::TransportUser& user)
    : link_(std::move(link)), side_(side), user_(&user) {
  link_->attach(*this, side);
}

SimTransport::~SimTransport() { link_->detach(side_); }

void SimTransport::send(Bytes bytes) noexcept {
  if (state_ == State::closing || state_ == State::closed || link_->dead_) return;
  Link::Pipe& pipe = link_->from(side_);
  if (pipe.gathered.empty()) link_->network_.staged_.push_back(link_);
  pipe.gathered += bytes;
  if (pipe.gathered.size() > kGatherMax) link_->flush(side_);
}

void SimTransport::pause(bool on) noexcept {
  if (paused_ == on) return;
  paused_ = on;
  link_->from(1 - side_).slipped = false;
  if (!on) link_->schedule(1 - side_);
}

void SimTransport::close() noexcept { link_->close_of(side_); }
io::Address SimTransport::peer() const { return link_->address(1 - side_); }
bool SimTransport::peer_holds() const noexcept { return link_->held(1 - side_); }
io::Address SimTransport::local() const { return link_->address(side_); }

// ---- the link

Link::Link(SimNetwork& network, std::uint64_t number, std::array<io::Address, 2> addresses,
           std::array<Party, 2> parties)
    : network_(network), number_(number), addresses_(std::move(addresses)), parties_(parties) {
  for (Pipe& pipe : pipes_) {
    if (network_.dice_.chance(network_.conditions_.reset))
      pipe.reset_after = 1 + network_.dice_.below(6000);
  }
}

bool Link::held(int side) const noexcept {
  const SimTransport* end = ends_[static_cast<std::size_t>(side)];
  return end != nullptr && !dead_ && end->state_ != SimTransport::State::closed &&
         end->state_ != SimTransport::State::closing;
}

void Link::touch(int side) noexcept {
  if (party(side) == Party::pooler) network_.loop_.touch();
}

void Link::attach(SimTransport& transport, int side) noexcept {
  end(side) = &transport;
  if (established_) transport.state_ = SimTransport::State::open;
  if (established_) schedule(1 - side);
}

void Link::detach(int side) noexcept {
  const bool was_open = end(side)->state_ == SimTransport::State::open ||
                        end(side)->state_ == SimTransport::State::connecting;
  end(side) = nullptr;
  if (dead_) return;
  Pipe& pipe = from(side);
  // What had not reached the kernel is lost with its owner.
  pipe.gathered.clear();
  const std::size_t taken = std::min(pipe.waiting(), network_.conditions_.window);
  pipe.queue.resize(pipe.sent + taken);
  if (!was_open && pipe.fin) return;
  pipe.fin = true;
  schedule(side);
}

void Link::established() {
  if (dead_) return;
  established_ = true;
  if (SimTransport* dialler = end(0);
      dialler && dialler->state_ == SimTransport::State::connecting) {
    dialler->state_ = SimTransport::State::open;
    touch(0);
    dialler->user_->on_connected();
  }
  flush(0);
  schedule(0);
}

/// What was gathered goes to the kernel, and what that does not take is kept.
void Link::flush(int side) noexcept {
  Pipe& pipe = from(side);
  if (!pipe.gathered.empty()) {
    pipe.queue += pipe.gathered;
    pipe.gathered.clear();
  }
  SimTransport* sender = end(side);
  if (!sender || !established_) return;
  const std::size_t window = network_.conditions_.window;
  if (pipe.waiting() > window) {
    sender->congested_ = true;
    if (party(side) == Party::pooler)
      network_.kept_max_ = std::max(network_.kept_max_, pipe.waiting() - window);
  }
  if (pipe.waiting() > 0) schedule(side);
}

void Link::schedule(int from_side) {
  Pipe& pipe = from(from_side);
  if (pipe.scheduled || dead_ || vanished_ || !established_ || (pipe.waiting() == 0 && !pipe.fin))
    return;
  pipe.scheduled = true;
  network_.loop_.after(network_.latency(),
                       [self = shared_from_this(), from_side] { self->deliver(from_side); });
}

void Link::deliver(int from_side) {
  Pipe& pipe = from(from_side);
  pipe.scheduled = false;
  if (dead_ || vanished_) return;
  const int to = 1 - from_side;
  SimTransport* receiver = end(to);
  if (!receiver) {
    // Nobody is there yet (attach() comes back to this), or nobody is there any more: the bytes are
    // for nobody.
    if (from(to).fin) pipe.sent = pipe.queue.size();
    return;
  }
  if (receiver->state_ == SimTransport::State::open && pipe.waiting() > 0) {
    if (receiver->paused_) {
      if (pipe.slipped || !network_.dice_.chance(100)) return;
      pipe.slipped = true;  // Pausing is advice: a span that was here already still comes.
    }
    std::size_t size = std::min(pipe.waiting(), kReadMax);
    if (network_.dice_.chance(network_.conditions_.split)) size = 1 + network_.dice_.below(size);
    bool breaks = false;
    if (pipe.reset_after > 0) {
      breaks = size >= pipe.reset_after;
      size = std::min<std::size_t>(size, pipe.reset_after);
      pipe.reset_after -= size;
    }
    // A copy: what the user sends, or a reset, may move the queue while he reads.
    const std::string bytes = pipe.queue.substr(pipe.sent, size);
    pipe.sent += size;
    if (pipe.sent == pipe.queue.size() || pipe.sent > kReadMax * 4) {
      pipe.queue.erase(0, pipe.sent);
      pipe.sent = 0;
    }
    touch(to);
    network_.loop_.trace().mix(number_ * 2 + static_cast<std::uint64_t>(from_side));
    network_.loop_.trace().mix(size);
    const std::shared_ptr<Link> keep = shared_from_this();
    receiver->user_->on_bytes(bytes);
    if (breaks) {
      reset("connection reset by peer");
      return;
    }
  } else if (receiver->state_ != SimTransport::State::open) {
    pipe.sent = pipe.queue.size();
  }
  if (SimTransport* sender = end(from_side)) {
    if (sender->congested_ && pipe.waiting() <= network_.conditions_.window) {
      sender->congested_ = false;
      if (sender->state_ == SimTransport::State::closing) {
        finish_close(from_side);
      } else if (sender->state_ == SimTransport::State::open) {
        touch(from_side);
        sender->user_->on_drained();
      }
    }
  }
  if (pipe.waiting() > 0) {
    schedule(from_side);
  } else if (pipe.fin) {
    tell_closed(to, "connection closed by the peer");
  }
}

void Link::close_of(int side) {
  SimTransport* closer = end(side);
  if (!closer || closer->state_ == SimTransport::State::closing ||
      closer->state_ == SimTransport::State::closed)
    return;
  if (dead_) return;
  const bool was_open = closer->state_ == SimTransport::State::open;
  closer->state_ = SimTransport::State::closing;
  if (was_open) flush(side);
  from(side).fin = true;
  schedule(side);
  const Duration wait = was_open && closer->congested_ ? kCloseFlushTime : Duration{1};
  network_.loop_.after(wait, [self = shared_from_this(), side] { self->finish_close(side); });
}

void Link::finish_close(int side) {
  SimTransport* closer = end(side);
  if (!closer || closer->state_ != SimTransport::State::closing) return;
  closer->state_ = SimTransport::State::closed;
  touch(side);
  closer->user_->on_closed(Error("closed"));
}

void Link::tell_closed(int side, const std::string& why) {
  SimTransport* told = end(side);
  if (!told || told->state_ == SimTransport::State::closed) return;
  // The teller is gone: nothing of ours will be read.
  told->state_ = SimTransport::State::closed;
  told->congested_ = false;
  from(side).fin = true;
  touch(side);
  told->user_->on_closed(Error(why));
}

void Link::reset(const char* why) {
  if (dead_) return;
  dead_ = true;
  for (Pipe& pipe : pipes_) {
    pipe.gathered.clear();
    pipe.queue.clear();
    pipe.sent = 0;
  }
  for (int side : {0, 1}) {
    network_.loop_.after(network_.latency(),
                         [self = shared_from_this(), side, text = std::string(why)] {
                           self->tell_closed(side, text);
                         });
  }
}

void Link::vanish(Duration give_up_after) {
  if (dead_ || vanished_) return;
  vanished_ = true;
  for (int side : {0, 1}) {
    network_.loop_.after(give_up_after + network_.latency(), [self = shared_from_this(), side] {
      self->dead_ = true;
      self->tell_closed(side, "Connection timed out");
    });
  }
}

// ---- the network

SimNetwork::SimNetwork(SimLoop& loop, Dice dice) noexcept : loop_(loop), dice_(dice) {}

Result<std::unique_ptr<io::Listener>> SimNetwork::listen(const io::Address& address,
                                                         io::Acceptor& acceptor) {
  if (doors_.count(address) != 0)
    return Error(concat({"listen on ", address.host, ": Address already in use"}));
  doors_[address] = {&acceptor, Party::pooler};
  return std::unique_ptr<io::Listener>(std::make_unique<SimListener>(*this, address));
}

std::unique_ptr<io::Transport> SimNetwork::dial(const io::Address& address,
                                                io::TransportUser& user, const io::DialTls&) {
  return start({.kind = io::Address::Kind::tcp, .host = "pooler", .port = ++last_port_},
               Party::pooler, address, user);
}

std::unique_ptr<io::Transport> SimNetwork::connect(const io::Address& from, const io::Address& to,
                                                   io::TransportUser& user) {
  return start(from, Party::client, to, user);
}

std::unique_ptr<SimTransport> SimNetwork::start(const io::Address& from, Party who,
                                                const io::Address& to, io::TransportUser& user) {
  const auto place = doors_.find(to);
  const Party other = place != doors_.end() ? place->second.party : Party::node;
  auto link =
      std::make_shared<Link>(*this, ++last_number_, std::array{from, to}, std::array{who, other});
  links_.push_back(link);
  if (links_.size() > 256)
    std::erase_if(links_, [](const std::weak_ptr<Link>& weak) { return weak.expired(); });
  auto transport = std::make_unique<SimTransport>(link, 0, user);
  if (!hanging_[to.host]) loop_.after(latency(), [this, link] { arrive(link); });
  return transport;
}

/// The other side of a dial: refused when nobody listens.
void SimNetwork::arrive(const std::shared_ptr<Link>& link) {
  const io::Address& to = link->address(1);
  if (!link->held(0) || link->vanished_ || hanging_[to.host]) return;
  const auto place = doors_.find(to);
  if (place == doors_.end()) {
    link->dead_ = true;
    link->tell_closed(
        0, concat({"connect to ", to.host, ":", std::to_string(to.port), ": Connection refused"}));
    return;
  }
  link->parties_[1] = place->second.party;
  io::Acceptor* acceptor = place->second.acceptor;
  link->established();
  link->touch(1);
  acceptor->on_accepted(std::make_unique<SimDoor>(link));
}

void SimNetwork::flush() noexcept {
  while (!staged_.empty()) {
    std::vector<std::weak_ptr<Link>> staged = std::move(staged_);
    staged_.clear();
    for (const std::weak_ptr<Link>& weak : staged) {
      const std::shared_ptr<Link> link = weak.lock();
      if (!link || link->dead_) continue;
      for (int side : {0, 1}) {
        if (!link->from(side).gathered.empty()) link->flush(side);
      }
    }
  }
}

void SimNetwork::cut_off(const std::string& host, bool on, Duration give_up_after) {
  hanging_[host] = on;
  if (!on) return;
  for (const std::weak_ptr<Link>& weak : links_) {
    const std::shared_ptr<Link> link = weak.lock();
    if (link && (link->address(0).host == host || link->address(1).host == host))
      link->vanish(give_up_after);
  }
}

void SimNetwork::reset_host(const std::string& host, const char* why) {
  for (const std::weak_ptr<Link>& weak : links_) {
    const std::shared_ptr<Link> link = weak.lock();
    if (link && (link->address(0).host == host || link->address(1).host == host)) link->reset(why);
  }
}

std::vector<std::shared_ptr<Link>> SimNetwork::links_of(Party peer) {
  std::vector<std::shared_ptr<Link>> out;
  for (const std::weak_ptr<Link>& weak : links_) {
    std::shared_ptr<Link> link = weak.lock();
    if (!link || link->dead_ || link->vanished_ || !link->end(0) || !link->end(1)) continue;
    if (link->party(0) == peer || link->party(1) == peer) out.push_back(std::move(link));
  }
  return out;
}

void SimNetwork::reset_one(Party peer) {
  const std::vector<std::shared_ptr<Link>> links = links_of(peer);
  if (!links.empty()) links[dice_.below(links.size())]->reset("connection reset by peer");
}

void SimNetwork::vanish_one(Party peer, Duration give_up_after) {
  const std::vector<std::shared_ptr<Link>> links = links_of(peer);
  if (!links.empty()) links[dice_.below(links.size())]->vanish(give_up_after);
}

int SimNetwork::pooler_links_to(const std::string& host) const {
  int count = 0;
  for (const std::weak_ptr<Link>& weak : links_) {
    const std::shared_ptr<Link> link = weak.lock();
    if (link && link->party(0) == Party::pooler && link->address(1).host == host && link->held(0))
      ++count;
  }
  return count;
}

}  // namespace pgweir::sim
