#include "net/tls_transport.h"

#include <openssl/err.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "net/tls_names.h"

namespace pgweir::net {

/// The two ends of OpenSSL: it reads the bytes at hand and writes to the transport below.
struct TlsBio {
  static TlsTransport& owner(BIO* bio) { return *static_cast<TlsTransport*>(BIO_get_data(bio)); }

  static int read(BIO* bio, char* into, std::size_t size, std::size_t* got) {
    BIO_clear_retry_flags(bio);
    Bytes& input = owner(bio).input_;
    if (input.empty()) {
      BIO_set_retry_read(bio);
      *got = 0;
      return 0;
    }
    *got = std::min(size, input.size());
    std::memcpy(into, input.data(), *got);
    input.remove_prefix(*got);
    return 1;
  }

  static int write(BIO* bio, const char* bytes, std::size_t size, std::size_t* taken) {
    BIO_clear_retry_flags(bio);
    owner(bio).under_.send(Bytes(bytes, size));
    *taken = size;
    return 1;
  }

  static long control(BIO*, int what, long, void*) { return what == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO* make(TlsTransport& transport) {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made =
          BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "pgweir transport");
      BIO_meth_set_read_ex(made, read);
      BIO_meth_set_write_ex(made, write);
      BIO_meth_set_ctrl(made, control);
      return made;
    }();
    BIO* bio = BIO_new(method);
    if (!bio) return nullptr;
    BIO_set_data(bio, &transport);
    BIO_set_init(bio, 1);
    return bio;
  }
};

/// Sessions that servers give us to resume.
struct TlsSessions {
  static int took(SSL* ssl, SSL_SESSION* session) {
    auto* transport = static_cast<TlsTransport*>(SSL_get_app_data(ssl));
    if (!transport || transport->terms_.session_name.empty()) return 0;
    transport->context_->remember(transport->terms_.session_name, SessionPointer(session));
    return 1;
  }
};

TlsTransport::TlsTransport(Loop& loop, std::shared_ptr<TlsContext> context, io::Transport& under,
                           io::TransportUser& user, TlsTerms terms)
    : loop_(loop),
      context_(std::move(context)),
      under_(under),
      user_(&user),
      terms_(std::move(terms)) {
  under_.hand_to(*this);
}

TlsTransport::TlsTransport(Loop& loop, std::shared_ptr<TlsContext> context,
                           std::unique_ptr<io::Transport> under, io::TransportUser& user,
                           TlsTerms terms)
    : loop_(loop),
      context_(std::move(context)),
      own_(std::move(under)),
      under_(*own_),
      user_(&user),
      terms_(std::move(terms)) {
  under_.hand_to(*this);
}

TlsTransport::~TlsTransport() {
  // A connection that was merely cut off is no reason against resuming its session, which OpenSSL
  // would otherwise make useless.
  if (ssl_ && !why_) SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  drop_gathered();
  loop_.forget(*this);
}

void TlsTransport::start(Bytes read) noexcept {
  ENSURE(!ssl_ && state_ == TlsState::handshaking);
  ssl_ = context_->start();
  BIO* bio = ssl_ ? TlsBio::make(*this) : nullptr;
  if (!bio) {
    ssl_.reset();
    return fail(Error("TLS handshake failed: out of memory"));
  }
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  if (context_->role() == TlsRole::server) {
    SSL_set_accept_state(ssl_.get());
  } else {
    SSL_set_connect_state(ssl_.get());
    SSL_CTX_sess_set_new_cb(SSL_get_SSL_CTX(ssl_.get()), TlsSessions::took);
    // An address is no name, and servers may refuse one that says it is.
    if (!terms_.server_name.empty() && !is_ip_address(terms_.server_name))
      (void)SSL_set_tlsext_host_name(ssl_.get(), terms_.server_name.c_str());
    if (const SessionPointer session = context_->take_session(terms_.session_name))
      (void)SSL_set_session(ssl_.get(), session.get());
  }
  input_ = read;
  go_on();
}

void TlsTransport::on_bytes(Bytes bytes) noexcept {
  if (state_ == TlsState::closed) return;
  input_ = bytes;
  go_on();
}

void TlsTransport::go_on() noexcept {
  ERR_clear_error();
  if (state_ == TlsState::handshaking && !shake_hands()) return;
  if (state_ == TlsState::open) read_records();
  input_ = {};
}

/// False while there is more to it, or when it failed.
bool TlsTransport::shake_hands() noexcept {
  const int done = SSL_do_handshake(ssl_.get());
  if (done != 1) {
    const int code = SSL_get_error(ssl_.get(), done);
    if (code != SSL_ERROR_WANT_READ) fail(Error("TLS handshake failed: " + handshake_error(code)));
    input_ = {};
    return false;
  }
  if (std::optional<Error> against = objection()) {
    (void)SSL_shutdown(ssl_.get());
    fail(*std::move(against));
    return false;
  }
  info_ = describe(*ssl_, context_->verifies(), context_->end_point());
  info_->resumed = resumed();
  state_ = TlsState::open;
  user_->on_connected();
  if (!early_.empty() && state_ == TlsState::open) {
    encrypt(early_);
    OPENSSL_cleanse(early_.data(), early_.size());
    std::string().swap(early_);
  }
  return state_ == TlsState::open;
}

std::string TlsTransport::handshake_error(int code) noexcept {
  const long verdict = SSL_get_verify_result(ssl_.get());
  const std::string reason = code == SSL_ERROR_ZERO_RETURN ? "the peer ended it" : openssl_error();
  if (verdict == X509_V_OK || reason != "certificate verify failed") return reason;
  return concat({reason, ": ", X509_verify_cert_error_string(verdict)});
}

/// What the handshake allowed and we don't.
std::optional<Error> TlsTransport::objection() noexcept {
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &protocol, &size);
  if (terms_.direct && size == 0) {
    return Error(
        "TLS handshake failed: a direct TLS connection has to name the protocol postgresql (ALPN)");
  }
  if (context_->role() == TlsRole::server || context_->settings().mode != io::TlsMode::verify_full)
    return std::nullopt;
  X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  if (certificate && belongs_to(*certificate, terms_.server_name)) return std::nullopt;
  return Error(
      concat({"TLS handshake failed: certificate verify failed: the server's certificate (",
              certificate ? common_name(*certificate) : "none", ") does not match host name \"",
              terms_.server_name, "\""}));
}

void TlsTransport::read_records() noexcept {
  const std::span<char> plain = loop_.plain_buffer();
  std::size_t filled = 0;
  for (;;) {
    std::size_t got = 0;
    const int done = SSL_read_ex(ssl_.get(), plain.data() + filled, plain.size() - filled, &got);
    if (done == 1) {
      filled += got;
      if (plain.size() - filled >= SSL3_RT_MAX_PLAIN_LENGTH) continue;
      user_->on_bytes(Bytes(plain.data(), std::exchange(filled, 0)));
      if (state_ != TlsState::open) return;
      // Others have used OpenSSL meanwhile, and an error of theirs would be taken for ours.
      ERR_clear_error();
      continue;
    }
    const int code = SSL_get_error(ssl_.get(), done);
    const std::string broken = code == SSL_ERROR_WANT_READ || code == SSL_ERROR_ZERO_RETURN
                                   ? std::string()
                                   : openssl_error();
    if (filled > 0) user_->on_bytes(Bytes(plain.data(), filled));
    if (state_ != TlsState::open) return;
    if (!broken.empty()) {
      fail(Error("TLS connection broken: " + broken));
    } else if (code == SSL_ERROR_ZERO_RETURN) {
      (void)SSL_shutdown(ssl_.get());
      fail(Error("connection closed by the peer"));
    }
    return;
  }
}

void TlsTransport::send(Bytes bytes) noexcept {
  if (bytes.empty()) return;
  switch (state_) {
    case TlsState::handshaking:
      if (early_.size() + bytes.size() <= kEarlyBytesMax) early_.append(bytes);
      return;
    case TlsState::closed:
      return;
    case TlsState::open:
      break;
  }
  if (bytes.size() > kGatherBytesMax || gathered_bytes_ + bytes.size() > Block::kBytes) flush();
  if (bytes.size() > kGatherBytesMax) return encrypt(bytes);
  if (!gathered_) gathered_ = loop_.borrow_block();
  std::memcpy(gathered_->bytes.data() + gathered_bytes_, bytes.data(), bytes.size());
  gathered_bytes_ += bytes.size();
  if (!staged_hook.linked) loop_.stage(*this);
}

void TlsTransport::flush() noexcept {
  if (gathered_bytes_ == 0 || state_ != TlsState::open) return drop_gathered();
  encrypt(Bytes(gathered_->bytes.data(), gathered_bytes_));
  drop_gathered();
}

void TlsTransport::encrypt(Bytes bytes) noexcept {
  ERR_clear_error();
  std::size_t written = 0;
  if (SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written) == 1) return;
  fail(Error("TLS connection broken: " + openssl_error()));
}

void TlsTransport::drop_gathered() noexcept {
  gathered_bytes_ = 0;
  if (gathered_) loop_.return_block(std::move(gathered_));
}

/// The transport below tells of its end later, never from within this call: so will we.
void TlsTransport::fail(Error why) noexcept {
  if (state_ == TlsState::closed) return;
  state_ = TlsState::closed;
  input_ = {};
  why_ = std::move(why);
  loop_.unstage(*this);
  drop_gathered();
  under_.close();
}

void TlsTransport::close() noexcept {
  if (state_ == TlsState::closed) return;
  if (state_ == TlsState::open) {
    loop_.unstage(*this);
    flush();
    if (state_ == TlsState::closed) return;
    ERR_clear_error();
    (void)SSL_shutdown(ssl_.get());
  }
  state_ = TlsState::closed;
  under_.close();
}

void TlsTransport::on_drained() noexcept {
  if (state_ == TlsState::open) user_->on_drained();
}

void TlsTransport::on_closed(const Error& why) noexcept {
  const bool in_handshake = state_ == TlsState::handshaking;
  state_ = TlsState::closed;
  loop_.unstage(*this);
  drop_gathered();
  if (why_) return user_->on_closed(*why_);
  if (in_handshake) return user_->on_closed(Error("TLS handshake broken off: " + why.text()));
  user_->on_closed(why);
}

}  // namespace pgweir::net
