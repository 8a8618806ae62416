#include "net/dialer.h"

#include <openssl/crypto.h>

#include <optional>

#include "base/text.h"
#include "net/tls_transport.h"

namespace pgweir::net {
namespace {

/// Length 8, and the number that stands where a protocol version would.
constexpr std::string_view kSslRequest("\0\0\0\x08\x04\xd2\x16\x2f", 8);

/// A transport that may still wait for its name, and for the server's word on encryption.
///
///   opening ─► asking ─► encrypting ─► (the user is served by the TlsTransport)
///      │  S/N? ──┴─► plain              (the user is served by the socket)
///      └─► refused: it was opened, and what came was not what was asked for
class DialledTransport final : public io::Transport, private io::TransportUser, private NameUser {
 public:
  DialledTransport(Loop& loop, io::TransportUser& user, const io::Address& address,
                   const SocketOptions& options)
      : loop_(loop), user_(user), port_(address.port), socket_(loop, user, address, options) {}
  ~DialledTransport() = default;

  /// Before begin().
  void encrypt_with(std::shared_ptr<TlsContext> context, TlsTerms terms) {
    context_ = std::move(context);
    terms_ = std::move(terms);
    step_ = Step::opening;
    socket_.hand_to(*this);
  }

  void begin(Resolver& resolver, const io::Address& address) {
    if (address.kind == io::Address::Kind::unix_socket) {
      Result<SocketAddress> path = unix_address(address);
      if (path) {
        socket_.connect({*path});
      } else {
        socket_.fail(path.error(), io::DialFailure::connect);
      }
      return;
    }
    if (SocketAddress literal = literal_address(address.host, address.port); literal.size > 0) {
      socket_.connect({literal});
      return;
    }
    resolver.resolve(address.host, *this);
  }
  void fail(Error why) noexcept { socket_.fail(std::move(why), io::DialFailure::none); }

  void send(Bytes bytes) noexcept override {
    switch (step_) {
      case Step::plain:
        return socket_.send(bytes);
      case Step::encrypting:
        return tls_->send(bytes);
      case Step::opening:
      case Step::asking:
        early_.append(bytes);
        return;
      case Step::refused:
        return;
    }
  }
  bool congested() const noexcept override { return socket_.congested(); }
  void pause(bool on) noexcept override { socket_.pause(on); }
  void close() noexcept override { tls_ ? tls_->close() : socket_.close(); }
  io::Address peer() const override { return socket_.peer(); }
  io::Address local() const override { return socket_.local(); }
  std::int64_t peer_uid() const noexcept override { return socket_.peer_uid(); }
  void hand_to(io::TransportUser& user) noexcept override {
    // Only once it stands: nobody has a reason to do it before.
    tls_ ? tls_->hand_to(user) : socket_.hand_to(user);
  }
  const io::TlsInfo* tls() const noexcept override { return tls_ ? tls_->tls() : nullptr; }
  io::DialFailure dial_failure() const noexcept override { return socket_.dial_failure(); }

 private:
  enum class Step : std::uint8_t { plain, opening, asking, encrypting, refused };

  void on_resolved(const Result<std::vector<SocketAddress>>& found) noexcept override {
    if (socket_.state() != SocketState::resolving) return;  // Closed meanwhile.
    if (!found) {
      socket_.fail(found.error(), io::DialFailure::name);
      return;
    }
    std::vector<SocketAddress> addresses = *found;
    for (SocketAddress& address : addresses) set_port(address, port_);
    socket_.connect(std::move(addresses));
  }

  // The socket's user until the server has said whether there is encryption.
  void on_connected() noexcept override {
    if (context_->settings().direct) return handshake();
    step_ = Step::asking;
    socket_.send(kSslRequest);
  }

  void on_bytes(Bytes bytes) noexcept override {
    if (step_ != Step::asking) return;
    // Whoever sits on the wire could put words in front of the encrypted ones.
    if (bytes.size() > 1) return refuse("received unencrypted data after SSL response");
    switch (bytes[0]) {
      case 'S':
        return handshake();
      case 'N':
        if (!optional()) return refuse("server refused SSL");
        step_ = Step::plain;
        socket_.hand_to(user_);
        user_.on_connected();
        return give_early();
      case 'E':
        // What it says is not protected by anything: it is not passed on.
        return refuse("server sent an error instead of an answer to the SSL request");
      default:
        return refuse("server sent an invalid answer to the SSL request");
    }
  }

  void on_drained() noexcept override {}

  void on_closed(const Error& why) noexcept override {
    const bool asked = step_ == Step::asking;
    step_ = Step::refused;
    if (why_) return user_.on_closed(*why_);
    if (asked) return user_.on_closed(Error("after the SSL request: " + why.text()));
    user_.on_closed(why);
  }

  bool optional() const noexcept {
    switch (context_->settings().mode) {
      case io::TlsMode::disable:
      case io::TlsMode::allow:
      case io::TlsMode::prefer:
        return true;
      case io::TlsMode::require:
      case io::TlsMode::verify_ca:
      case io::TlsMode::verify_full:
        return false;
    }
    return false;
  }

  void handshake() noexcept {
    step_ = Step::encrypting;
    tls_ = std::make_unique<TlsTransport>(loop_, context_, socket_, user_, std::move(terms_));
    give_early();
    tls_->start({});
  }

  void give_early() noexcept {
    if (early_.empty()) return;
    send(early_);
    OPENSSL_cleanse(early_.data(), early_.size());
    std::string().swap(early_);
  }

  void refuse(std::string_view why) noexcept {
    step_ = Step::refused;
    why_ = Error(std::string(why));
    socket_.close();
  }

  Loop& loop_;
  io::TransportUser& user_;
  std::uint16_t port_;
  Step step_ = Step::plain;
  std::shared_ptr<TlsContext> context_;
  TlsTerms terms_;
  std::string early_;  ///< given before the connection stood
  std::optional<Error> why_;
  SocketTransport socket_;
  std::unique_ptr<TlsTransport> tls_;  ///< dies before the socket it stands on
};

}  // namespace

std::unique_ptr<io::Transport> SocketDialer::dial(const io::Address& address,
                                                  io::TransportUser& user, const io::DialTls& tls) {
  auto transport = std::make_unique<DialledTransport>(loop_, user, address, options_);
  if (tls.settings && tls.settings->mode != io::TlsMode::disable &&
      address.kind == io::Address::Kind::tcp) {
    Result<std::shared_ptr<TlsContext>> context = tls_.towards_servers(*tls.settings);
    if (!context) {
      transport->fail(context.error());
      return transport;
    }
    TlsTerms terms;
    terms.direct = tls.settings->direct;
    terms.server_name = tls.server_name.empty() ? address.host : tls.server_name;
    terms.session_name = concat({terms.server_name, ":", std::to_string(address.port)});
    transport->encrypt_with(*std::move(context), std::move(terms));
  }
  transport->begin(resolver_, address);
  return transport;
}

}  // namespace pgweir::net
