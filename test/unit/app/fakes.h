// A world of one's own for the Pooler: a clock that is set, connections whose other ends the test
// holds, files in memory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/pooler.h"
#include "base/text.h"
#include "config/ini_text.h"
#include "io/io.h"
#include "monitor/prober.h"

namespace pgweir::test {

using namespace std::chrono_literals;

/// The other end of a connection, which outlives the transport.
struct Wire {
  io::TransportUser* user = nullptr;  ///< null once the transport is destroyed
  io::Address peer;
  std::int64_t uid = -1;
  std::string sent;  ///< by the pooler
  bool closing = false;
  bool congested = false;  ///< its peer takes nothing
  bool paused = false;     ///< the pooler reads nothing

  void connected() const { user->on_connected(); }
  void say(std::string_view bytes) const {
    if (user) user->on_bytes(bytes);
  }
  void hang_up(std::string_view why = "connection closed by the peer") {
    closing = true;
    if (user) user->on_closed(Error("08006", std::string(why)));
  }
  std::string take() { return std::exchange(sent, {}); }
  bool has(std::string_view text) const { return sent.find(text) != std::string::npos; }
};

class FakeTransport final : public io::Transport {
 public:
  explicit FakeTransport(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  ~FakeTransport() override { wire_->user = nullptr; }
  void send(Bytes bytes) noexcept override { wire_->sent += bytes; }
  bool congested() const noexcept override { return wire_->congested; }
  void pause(bool on) noexcept override { wire_->paused = on; }
  void close() noexcept override { wire_->closing = true; }
  io::Address peer() const override { return wire_->peer; }
  io::Address local() const override { return {io::Address::Kind::tcp, "127.0.0.1", 6432}; }
  std::int64_t peer_uid() const noexcept override { return wire_->uid; }
  void hand_to(io::TransportUser& user) noexcept override { wire_->user = &user; }

 private:
  std::shared_ptr<Wire> wire_;
};

class FakeDialer final : public io::Dialer {
 public:
  std::unique_ptr<io::Transport> dial(const io::Address& address, io::TransportUser& user,
                                      const io::DialTls&) override {
    auto wire = std::make_shared<Wire>();
    wire->user = &user;
    wire->peer = address;
    dialled.push_back(wire);
    return std::make_unique<FakeTransport>(wire);
  }
  std::vector<std::shared_ptr<Wire>> dialled;
};

class FakeDoor final : public io::Door {
 public:
  explicit FakeDoor(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  std::unique_ptr<io::Transport> admit(io::TransportUser& user) noexcept override {
    wire_->user = &user;
    return std::make_unique<FakeTransport>(wire_);
  }

 private:
  std::shared_ptr<Wire> wire_;
};

class FakeNetwork final : public io::Network {
 public:
  class Open final : public io::Listener {
   public:
    explicit Open(std::string name) : name_(std::move(name)) {}
    std::string name() const override { return name_; }

   private:
    std::string name_;
  };
  Result<std::unique_ptr<io::Listener>> listen(const io::Address& address,
                                               io::Acceptor& acceptor) override {
    if (address.host == refused)
      return Error(concat({"listen on ", address.host, ": Address already in use"}));
    acceptor_ = &acceptor;
    return std::unique_ptr<io::Listener>(std::make_unique<Open>(address.host));
  }
  std::shared_ptr<Wire> connect(std::int64_t uid = -1) {
    auto wire = std::make_shared<Wire>();
    wire->uid = uid;
    wire->peer = {uid < 0 ? io::Address::Kind::tcp : io::Address::Kind::unix_socket, "10.0.0.1",
                  4711};
    acceptor_->on_accepted(std::make_unique<FakeDoor>(wire));
    return wire;
  }
  std::string refused = "nowhere";

 private:
  io::Acceptor* acceptor_ = nullptr;
};

class FakeClock final : public io::Clock {
 public:
  Time now() const noexcept override { return at; }
  WallTime wall() const noexcept override { return WallTime{} + at.time_since_epoch(); }
  Time at = Time{} + 1h;
};

/// Nodes that never answer the monitor.
class FakeProber final : public monitor::Prober {
 public:
  class Mute final : public monitor::Probe {
   public:
    void ask(std::uint64_t, std::string_view, Time) override {}
    void ask_by_row(std::uint64_t, std::string_view, Time) override {}
    bool connected() const noexcept override { return false; }
  };
  std::unique_ptr<monitor::Probe> probe(const io::Address&, const monitor::Login&,
                                        monitor::ProbeUser&) override {
    return std::make_unique<Mute>();
  }
};

class FakeRandom final : public Random {
 public:
  void fill(std::span<char> bytes) noexcept override {
    for (char& byte : bytes) byte = static_cast<char>(++last_ * 37);
  }

 private:
  unsigned last_ = 0;
};

class KeptLog final : public Log {
 public:
  void write(LogLevel, std::string_view message) noexcept override {
    text += std::string(message) + "\n";
  }
  bool wants(LogLevel) const noexcept override { return true; }
  bool has(std::string_view part) const { return text.find(part) != std::string::npos; }
  std::string text;
};

class MemoryFiles final : public config::IniSource {
 public:
  Result<std::string> read(const std::string& path) const override {
    const auto found = files.find(path);
    if (found == files.end()) return Error(concat({path, ": No such file or directory"}));
    return found->second;
  }
  std::map<std::string, std::string> files;
};

}  // namespace pgweir::test
