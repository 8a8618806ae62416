#include "net/tls_transport.h"

#include <openssl/err.h>

#include "net/tls_names.h"
#include "tls_harness.h"

namespace pgweir::net {
namespace {

using io::TlsMode;
using io::TlsSettings;

struct Fixture {
  World world;
  Certificates files;

  TlsSettings towards_clients() const {
    return {.mode = TlsMode::require,
            .cert_file = files.server.cert_file,
            .key_file = files.server.key_file};
  }
  TlsSettings towards_servers(TlsMode mode = TlsMode::verify_full) const {
    return {.mode = mode, .ca_file = files.ca.cert_file};
  }
  /// A connection with these settings, its handshake done or failed.
  std::unique_ptr<Talk> talk(const TlsSettings& client, const TlsSettings& server,
                             const TlsTerms& terms = {.server_name = "localhost"},
                             const TlsTerms& server_terms = {}) {
    auto made = std::make_unique<Talk>(world, context(client, TlsRole::client),
                                       context(server, TlsRole::server), terms, server_terms);
    made->shake_hands();
    return made;
  }
  std::unique_ptr<Talk> talk() { return talk(towards_servers(), towards_clients()); }
};

std::string pattern(std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>(i * 31 + i / 251);
  return out;
}

TEST_CASE("a handshake split at every byte ends like a whole one", "[net][tls]") {
  Fixture fixture;
  for (const char* protocols : {"tlsv1.2", "tlsv1.3"}) {
    TlsSettings server = fixture.towards_clients();
    server.protocols = protocols;
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1'000'000}}) {
      Talk talk(fixture.world, context(fixture.towards_servers(), TlsRole::client),
                context(server, TlsRole::server), {.server_name = "localhost"});
      talk.shake_hands(piece);
      REQUIRE(talk.client_user.connected);
      REQUIRE(talk.server_user.connected);
      talk.client.send("ping");
      talk.wire.run(piece);
      talk.server.send("pong");
      talk.wire.run(piece);
      CHECK(talk.server_user.got == "ping");
      CHECK(talk.client_user.got == "pong");
      CHECK(talk.client.tls()->version ==
            (std::string_view(protocols) == "tlsv1.2" ? "TLSv1.2" : "TLSv1.3"));
      CHECK(talk.client.tls()->text() == talk.server.tls()->text());
    }
  }
}

TEST_CASE("what is sent before the handshake is done goes out behind it, encrypted", "[net][tls]") {
  Fixture fixture;
  Talk talk(fixture.world, context(fixture.towards_servers(), TlsRole::client),
            context(fixture.towards_clients(), TlsRole::server), {.server_name = "localhost"});
  talk.client.send("early ");
  talk.client.start({});
  talk.client.send("bird");
  CHECK(talk.wire.ends[0].sent.find("early") == std::string::npos);
  talk.server.start(std::exchange(talk.wire.ends[0].sent, {}));
  talk.wire.run();
  CHECK(talk.server_user.got == "early bird");
}

TEST_CASE("megabytes arrive unchanged in both directions however they are cut", "[net][tls]") {
  Fixture fixture;
  const std::unique_ptr<Talk> talk = fixture.talk();
  const std::string all = pattern(3'000'000);
  for (std::size_t at = 0, size = 0; at < all.size(); at += size) {
    size = std::min<std::size_t>(all.size() - at, 1 + at % 40'000);
    talk->client.send(Bytes(all).substr(at, size));
    talk->server.send(Bytes(all).substr(at, size));
  }
  talk->wire.run(5'003);
  CHECK(talk->server_user.got == all);
  CHECK(talk->client_user.got == all);
}

TEST_CASE("small sends of one turn travel in one record", "[net][tls]") {
  Fixture fixture;
  const std::unique_ptr<Talk> talk = fixture.talk();
  for (int i = 0; i < 100; ++i) talk->server.send("0123456789");
  CHECK(talk->wire.ends[1].sent.empty());
  fixture.world.loop.flush_staged();
  CHECK(talk->wire.ends[1].sent.size() < 1'000 + 64);
  talk->wire.run();
  CHECK(talk->client_user.got.size() == 1'000);
  CHECK(talk->client_user.spans == 1);
}

TEST_CASE("congestion and pauses are those of the transport below", "[net][tls]") {
  Fixture fixture;
  const std::unique_ptr<Talk> talk = fixture.talk();
  talk->wire.ends[0].full = true;
  CHECK(talk->client.congested());
  talk->wire.ends[0].full = false;
  talk->wire.ends[0].user->on_drained();
  CHECK(talk->client_user.drained == 1);
  talk->client.pause(true);
  CHECK(talk->wire.ends[0].paused);
}

TEST_CASE("a close tells the peer, who hears of it once", "[net][tls]") {
  Fixture fixture;
  const std::unique_ptr<Talk> talk = fixture.talk();
  talk->client.send("last words");
  talk->client.close();
  talk->client.send("too late");
  talk->wire.run();
  CHECK(talk->server_user.got == "last words");
  CHECK(talk->server_user.closed == 1);
  CHECK(talk->server_user.reason == "connection closed by the peer");
  CHECK(talk->client_user.closed == 1);
}

TEST_CASE("a peer that goes without a word is no error of the encryption", "[net][tls]") {
  Fixture fixture;
  const std::unique_ptr<Talk> talk = fixture.talk();
  talk->wire.ends[0].closed = true;
  talk->wire.run();
  CHECK(talk->server_user.closed == 1);
  CHECK(talk->server_user.reason == "connection closed by the peer");
}

TEST_CASE("a peer that goes in the middle of the handshake is named so", "[net][tls]") {
  Fixture fixture;
  const std::shared_ptr<TlsContext> of_client = context(fixture.towards_servers(), TlsRole::client);
  const std::shared_ptr<TlsContext> of_server = context(fixture.towards_clients(), TlsRole::server);
  // How much a client says in all.
  std::string hello;
  {
    Talk talk(fixture.world, of_client, of_server, {.server_name = "localhost"});
    talk.client.start({});
    fixture.world.loop.flush_staged();
    hello = talk.wire.ends[0].sent;
  }
  REQUIRE(hello.size() > 100);
  for (std::size_t cut = 0; cut < hello.size(); ++cut) {
    Talk talk(fixture.world, of_client, of_server);
    talk.server.start(Bytes(hello).substr(0, cut));
    talk.wire.ends[0].closed = true;
    talk.wire.run();
    REQUIRE(talk.server_user.closed == 1);
    REQUIRE(talk.server_user.reason == "TLS handshake broken off: connection closed by the peer");
    REQUIRE_FALSE(talk.server_user.connected);
  }
}

TEST_CASE("bytes that are no TLS end the connection, and only it", "[net][tls]") {
  Fixture fixture;
  Talk talk(fixture.world, context(fixture.towards_servers(), TlsRole::client),
            context(fixture.towards_clients(), TlsRole::server));
  talk.server.start("GET / HTTP/1.0\r\n\r\n");
  talk.wire.run();
  CHECK(talk.server_user.closed == 1);
  CHECK(talk.server_user.reason == "TLS handshake failed: http request");
  CHECK(ERR_peek_error() == 0);
  CHECK(fixture.talk()->server_user.connected);
}

TEST_CASE("a record that was changed on the way is refused", "[net][tls]") {
  Fixture fixture;
  const std::unique_ptr<Talk> talk = fixture.talk();
  talk->client.send("DELETE nothing");
  fixture.world.loop.flush_staged();
  talk->wire.ends[0].sent.back() = static_cast<char>(talk->wire.ends[0].sent.back() ^ 1);
  talk->wire.run();
  CHECK(talk->server_user.got.empty());
  CHECK(talk->server_user.closed == 1);
  CHECK(talk->server_user.reason == "TLS connection broken: decryption failed or bad record mac");
  CHECK(talk->client_user.closed == 1);
}

TEST_CASE("unencrypted bytes behind the handshake are not taken for data", "[net][tls]") {
  Fixture fixture;
  const std::unique_ptr<Talk> talk = fixture.talk();
  talk->wire.ends[0].sent += "Q....DROP TABLE accounts";
  talk->wire.run();
  CHECK(talk->server_user.got.empty());
  CHECK(talk->server_user.closed == 1);
}

// ---- certificates

TEST_CASE("a server's certificate is judged as far as the mode asks for", "[net][tls]") {
  Fixture fixture;
  Certificates& files = fixture.files;
  const Certificates::Pair expired =
      files.issue("expired", {.begins_s = -7200, .ends_s = -3600}, files.ca);
  const Certificates::Pair elsewhere =
      files.issue("elsewhere", {.common_name = "db.example.com"}, files.ca);
  const Certificates::Pair strange = files.issue("strange", {}, files.other_ca);
  const Certificates::Pair address = files.issue(
      "address", {.common_name = "x", .alternatives = "IP:127.0.0.1,DNS:*.example.org"}, files.ca);
  struct Case {
    Certificates::Pair pair;
    TlsMode mode;
    std::string name;
    std::string error;
  };
  const std::string failed = "TLS handshake failed: certificate verify failed: ";
  const std::vector<Case> cases = {
      {files.server, TlsMode::verify_full, "localhost", ""},
      {files.server, TlsMode::verify_ca, "whatever", ""},
      {expired, TlsMode::require, "localhost", ""},
      {expired, TlsMode::verify_ca, "localhost", failed + "certificate has expired"},
      {elsewhere, TlsMode::verify_ca, "localhost", ""},
      {elsewhere, TlsMode::verify_full, "localhost",
       failed + "the server's certificate (db.example.com) does not match host name \"localhost\""},
      {strange, TlsMode::prefer, "localhost", ""},
      {strange, TlsMode::verify_ca, "localhost", failed + "unable to get local issuer certificate"},
      {address, TlsMode::verify_full, "127.0.0.1", ""},
      {address, TlsMode::verify_full, "db.example.org", ""},
      {address, TlsMode::verify_full, "a.db.example.org",
       failed + "the server's certificate (x) does not match host name \"a.db.example.org\""},
      {address, TlsMode::verify_full, "x",
       failed + "the server's certificate (x) does not match host name \"x\""},
  };
  for (const Case& each : cases) {
    INFO(each.pair.cert_file << " " << each.name << " " << static_cast<int>(each.mode));
    TlsSettings server = fixture.towards_clients();
    server.cert_file = each.pair.cert_file;
    server.key_file = each.pair.key_file;
    const auto talk =
        fixture.talk(fixture.towards_servers(each.mode), server, {.server_name = each.name});
    CHECK(talk->client_user.connected == each.error.empty());
    CHECK(talk->client_user.reason == each.error);
    if (!each.error.empty()) {
      CHECK(talk->client_user.closed == 1);
      CHECK(talk->server_user.closed == 1);
    }
  }
}

TEST_CASE("a client's certificate is told with whether it may be believed", "[net][tls]") {
  Fixture fixture;
  Certificates& files = fixture.files;
  const Certificates::Pair good = files.issue("anna", {.common_name = "anna"}, files.ca);
  const Certificates::Pair strange = files.issue("eve", {.common_name = "anna"}, files.other_ca);
  const Certificates::Pair expired =
      files.issue("old", {.common_name = "anna", .begins_s = -7200, .ends_s = -60}, files.ca);
  const Certificates::Pair nul =
      files.issue("nul", {.common_name = std::string("anna\0.example.com", 17)}, files.ca);
  TlsSettings server = fixture.towards_clients();
  const auto with = [&](const Certificates::Pair& pair) {
    TlsSettings client = fixture.towards_servers();
    client.cert_file = pair.cert_file;
    client.key_file = pair.key_file;
    return fixture.talk(client, server);
  };

  SECTION("nobody is asked for one without an authority to judge it") {
    const auto talk = with(good);
    REQUIRE(talk->server_user.connected);
    CHECK_FALSE(talk->server.tls()->peer_has_certificate);
  }
  SECTION("with an authority it is asked for, and not insisted on") {
    server.ca_file = files.ca.cert_file;
    auto talk = with(good);
    REQUIRE(talk->server_user.connected);
    CHECK(talk->server.tls()->peer_verified);
    CHECK(talk->server.tls()->peer_common_name == "anna");
    CHECK(talk->server.tls()->peer_dn == "CN=anna");
    for (const Certificates::Pair& bad : {strange, expired}) {
      talk = with(bad);
      REQUIRE(talk->server_user.connected);
      CHECK(talk->server.tls()->peer_has_certificate);
      CHECK_FALSE(talk->server.tls()->peer_verified);
    }
    talk = with({});
    REQUIRE(talk->server_user.connected);
    CHECK_FALSE(talk->server.tls()->peer_has_certificate);
    CHECK_FALSE(talk->server.tls()->peer_verified);
    talk = with(nul);
    REQUIRE(talk->server_user.connected);
    CHECK(talk->server.tls()->peer_common_name.empty());
  }
  SECTION("verify-ca lets nobody in without a good one") {
    server.ca_file = files.ca.cert_file;
    server.mode = TlsMode::verify_ca;
    CHECK(with(good)->server.tls()->peer_verified);
    auto talk = with({});
    CHECK_FALSE(talk->server_user.connected);
    CHECK(talk->server_user.reason == "TLS handshake failed: peer did not return a certificate");
    talk = with(strange);
    CHECK(
        talk->server_user.reason ==
        "TLS handshake failed: certificate verify failed: unable to get local issuer certificate");
    talk = with(expired);
    CHECK(talk->server_user.reason ==
          "TLS handshake failed: certificate verify failed: certificate has expired");
  }
}

TEST_CASE("both ends know the same hash of the server's certificate", "[net][tls]") {
  Fixture fixture;
  const auto talk = fixture.talk();
  CHECK(talk->server.tls()->server_end_point.size() == 32);
  CHECK(talk->server.tls()->server_end_point == talk->client.tls()->server_end_point);
}

TEST_CASE("the name a client asks for is known, and an address is no name", "[net][tls]") {
  Fixture fixture;
  CHECK(fixture.talk()->server.tls()->server_name == "localhost");
  const auto talk = fixture.talk(fixture.towards_servers(TlsMode::require),
                                 fixture.towards_clients(), {.server_name = "127.0.0.1"});
  REQUIRE(talk->server_user.connected);
  CHECK(talk->server.tls()->server_name.empty());
}

// ---- what a peer may try

/// OpenSSL itself at the client's end, for what our transport would never do.
struct RawClient {
  explicit RawClient(std::string protocols_without = {})
      : context(SSL_CTX_new(TLS_client_method())) {
    if (!protocols_without.empty()) SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
    ssl = SSL_new(context);
    in = BIO_new(BIO_s_mem());
    out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
    SSL_set_connect_state(ssl);
  }
  ~RawClient() {
    SSL_free(ssl);
    SSL_CTX_free(context);
    ERR_clear_error();
  }
  std::string said() const {
    char* data = nullptr;
    const long size = BIO_get_mem_data(out, &data);
    std::string bytes(data, static_cast<std::size_t>(size));
    (void)BIO_reset(out);
    return bytes;
  }
  /// To and fro until neither has more to say.
  void run(Loop& loop, TlsTransport& server, Wire::End& end, const std::function<void()>& step) {
    for (int rounds = 0; rounds < 20; ++rounds) {
      step();
      const std::string bytes = said();
      if (!bytes.empty() && end.user && !end.closed) end.user->on_bytes(bytes);
      loop.flush_staged();
      const std::string answer = std::exchange(end.sent, {});
      if (!answer.empty()) BIO_write(in, answer.data(), static_cast<int>(answer.size()));
      if (bytes.empty() && answer.empty()) return;
    }
    (void)server;
  }
  SSL_CTX* context;
  SSL* ssl;
  BIO* in;
  BIO* out;
};

struct RawTalk {
  RawTalk(Fixture& fixture, const std::string& without = {}, const TlsTerms& terms = {})
      : loop(fixture.world.loop),
        client(without),
        wire(loop),
        server(loop, context(fixture.towards_clients(), TlsRole::server), wire.ends[1], user,
               terms) {
    server.start({});
  }
  void run(const std::function<void()>& step) { client.run(loop, server, wire.ends[1], step); }
  void shake_hands() {
    run([&] { SSL_do_handshake(client.ssl); });
  }
  Loop& loop;
  RawClient client;
  Wire wire;
  Recorder user;
  TlsTransport server;
};

TEST_CASE("renegotiation is refused", "[net][tls]") {
  Fixture fixture;
  RawTalk talk(fixture, "tlsv1.3");
  talk.shake_hands();
  REQUIRE(talk.user.connected);
  REQUIRE(SSL_renegotiate(talk.client.ssl) == 1);
  int reason = 0;
  talk.run([&] {
    ERR_clear_error();
    if (SSL_do_handshake(talk.client.ssl) != 1 && reason == 0)
      reason = ERR_GET_REASON(ERR_peek_error());
  });
  CHECK(reason == SSL_R_NO_RENEGOTIATION);
}

TEST_CASE("a client may ask for new keys at any time", "[net][tls]") {
  Fixture fixture;
  RawTalk talk(fixture);
  talk.shake_hands();
  REQUIRE(talk.user.connected);
  char buffer[64];
  for (int i = 0; i < 3; ++i) {
    REQUIRE(SSL_key_update(talk.client.ssl, SSL_KEY_UPDATE_REQUESTED) == 1);
    REQUIRE(SSL_write(talk.client.ssl, "new keys", 8) == 8);
    talk.run([&] { (void)SSL_read(talk.client.ssl, buffer, sizeof buffer); });
    talk.server.send("as you like");
    talk.loop.flush_staged();
    const std::string answer = std::exchange(talk.wire.ends[1].sent, {});
    BIO_write(talk.client.in, answer.data(), static_cast<int>(answer.size()));
    REQUIRE(SSL_read(talk.client.ssl, buffer, sizeof buffer) == 11);
  }
  CHECK(talk.user.got == "new keysnew keysnew keys");
}

TEST_CASE("direct TLS has to name the protocol and a request before need not", "[net][tls]") {
  Fixture fixture;
  SECTION("after an SSLRequest a client without ALPN is welcome") {
    RawTalk talk(fixture);
    talk.shake_hands();
    CHECK(talk.user.connected);
  }
  SECTION("a direct one without it is not") {
    RawTalk talk(fixture, {}, {.direct = true});
    talk.shake_hands();
    CHECK_FALSE(talk.user.connected);
    CHECK(talk.wire.ends[1].closed);
    talk.wire.run();
    CHECK(
        talk.user.reason ==
        "TLS handshake failed: a direct TLS connection has to name the protocol postgresql (ALPN)");
  }
  SECTION("nor one that names another protocol") {
    RawTalk talk(fixture, {}, {.direct = true});
    const unsigned char http[] = "\x08http/1.1";
    SSL_set_alpn_protos(talk.client.ssl, http, sizeof http - 1);
    talk.shake_hands();
    CHECK_FALSE(talk.user.connected);
    talk.wire.run();
    CHECK(talk.user.reason == "TLS handshake failed: no application protocol");
  }
  SECTION("ours does") {
    TlsSettings client = fixture.towards_servers();
    client.direct = true;
    const auto talk = fixture.talk(client, fixture.towards_clients(),
                                   {.direct = true, .server_name = "localhost"}, {.direct = true});
    CHECK(talk->server_user.connected);
    CHECK(talk->client_user.connected);
  }
}

TEST_CASE("versions that were not asked for are refused with a reason", "[net][tls]") {
  Fixture fixture;
  TlsSettings server = fixture.towards_clients();
  server.protocols = "tlsv1.3";
  TlsSettings client = fixture.towards_servers();
  client.protocols = "tlsv1.2";
  const auto talk = fixture.talk(client, server);
  CHECK(talk->server_user.reason == "TLS handshake failed: unsupported protocol");
  CHECK(talk->client_user.reason == "TLS handshake failed: tlsv1 alert protocol version");
}

// ---- resumption

TEST_CASE("the second connection to a server resumes the first one's session", "[net][tls]") {
  Fixture fixture;
  const auto of_client = context(fixture.towards_servers(), TlsRole::client);
  const auto of_server = context(fixture.towards_clients(), TlsRole::server);
  for (const bool again : {false, true, true}) {
    Talk talk(fixture.world, of_client, of_server,
              {.server_name = "localhost", .session_name = "localhost:5432"});
    talk.shake_hands();
    REQUIRE(talk.client_user.connected);
    CHECK(talk.client.resumed() == again);
    CHECK(talk.server.resumed() == again);
    CHECK(talk.client.tls()->peer_verified);
    CHECK(talk.client.tls()->server_end_point == of_server->end_point());
    talk.client.close();
    talk.wire.run();
  }
  Talk other(fixture.world, of_client, of_server,
             {.server_name = "localhost", .session_name = "localhost:5433"});
  other.shake_hands();
  CHECK_FALSE(other.client.resumed());
}

TEST_CASE("a resumed session keeps what was found of the client's certificate", "[net][tls]") {
  Fixture fixture;
  TlsSettings server = fixture.towards_clients();
  server.ca_file = fixture.files.ca.cert_file;
  for (const bool trusted : {true, false}) {
    const Certificates::Pair pair = fixture.files.issue(
        "anna", {.common_name = "anna"}, trusted ? fixture.files.ca : fixture.files.other_ca);
    TlsSettings client = fixture.towards_servers();
    client.cert_file = pair.cert_file;
    client.key_file = pair.key_file;
    const auto of_client = context(client, TlsRole::client);
    const auto of_server = context(server, TlsRole::server);
    for (const bool again : {false, true}) {
      Talk talk(fixture.world, of_client, of_server,
                {.server_name = "localhost", .session_name = "x"});
      talk.shake_hands();
      REQUIRE(talk.server_user.connected);
      CHECK(talk.server.resumed() == again);
      CHECK(talk.server.tls()->peer_has_certificate);
      CHECK(talk.server.tls()->peer_common_name == "anna");
      CHECK(talk.server.tls()->peer_verified == trusted);
    }
  }
}

}  // namespace
}  // namespace pgweir::net
