# frozen_string_literal: true

# Verifies webhooks. Needs Ruby 3.0 and no gem. Headers are a hash with names in lower case.

require "base64"
require "json"
require "openssl"

# Receiver verifies deliveries.
module Receiver
  TOLERANCE = 300 # seconds
  # The beginning of an Ed25519 key as SubjectPublicKeyInfo (RFC 8410); the 32 bytes of the key follow.
  ED25519 = ["302a300506032b6570032100"].pack("H*")

  module_function

  # Reports whether X-Webhook-Signature is that of an organization's secret (signing mode org_timestamp).
  def organization?(secret, headers, body, now)
    timestamp = headers.fetch("x-webhook-timestamp", "")
    expected = OpenSSL::HMAC.hexdigest("SHA256", secret, "#{timestamp}.".b + body.b)
    recent?(timestamp, now) && same?(headers.fetch("x-webhook-signature", ""), expected)
  end

  # Reports whether X-Webhook-Signature is that of an endpoint's own secret (signing mode endpoint_body).
  def endpoint?(secret, headers, body)
    expected = "sha256=#{OpenSSL::HMAC.hexdigest("SHA256", secret, body)}"
    same?(headers.fetch("x-webhook-signature", ""), expected)
  end

  # Reports whether webhook-signature has a signature of key: a secret (v1), or a public key with whpk_ (v1a).
  def standard?(key, headers, body, now)
    timestamp = headers.fetch("webhook-timestamp", "")
    return false unless recent?(timestamp, now)

    signed = "#{headers.fetch("webhook-id", "")}.#{timestamp}.".b + body.b
    headers.fetch("webhook-signature", "").split(" ").any? do |part|
      version, encoded = part.split(",", 2)
      encoded ||= ""
      if key.start_with?("whpk_")
        version == "v1a" && ed25519?(key, encoded, signed)
      else
        raw = key.start_with?("whsec_") ? Base64.decode64(key.delete_prefix("whsec_")) : key
        version == "v1" && same?(encoded, Base64.strict_encode64(OpenSSL::HMAC.digest("SHA256", raw, signed)))
      end
    end
  end

  def recent?(timestamp, now)
    timestamp.match?(/\A[0-9]{1,12}\z/) && (now - timestamp.to_i).abs <= TOLERANCE
  end

  def same?(given, expected)
    given.bytesize == expected.bytesize && OpenSSL.fixed_length_secure_compare(given, expected)
  end

  def ed25519?(key, encoded, signed)
    public_key = OpenSSL::PKey.read(ED25519 + Base64.strict_decode64(key.delete_prefix("whpk_")))
    public_key.verify(nil, Base64.strict_decode64(encoded), signed)
  rescue ArgumentError, OpenSSL::PKey::PKeyError
    false
  end
end

# Run with a file of vectors, it checks their deliveries.
if $PROGRAM_NAME == __FILE__
  vectors = JSON.parse(File.read(ARGV.fetch(0), encoding: "UTF-8"))
  vectors.each do |v|
    headers = v["headers"].transform_keys(&:downcase)
    valid = case v["check"]
            when "organization" then Receiver.organization?(v["key"], headers, v["body"], v["now"])
            when "endpoint" then Receiver.endpoint?(v["key"], headers, v["body"])
            else Receiver.standard?(v["key"], headers, v["body"], v["now"])
            end
    abort "#{v["name"]}: #{valid}, want #{v["valid"]}" if valid != v["valid"]
  end
  puts "#{vectors.length} deliveries checked"
end
