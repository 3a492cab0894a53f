#!/bin/sh
# Creates the folder config for a trial: a CA, a certificate for the replicas, one for an operator, and the rights of
# the operator.
set -eu
umask 077
mkdir config
cd config
new='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
openssl req -x509 $new -days 365 -subj /CN=tenure-trial -addext basicConstraints=critical,CA:TRUE \
  -keyout ca.key -out ca.crt 2>/dev/null
issue() { # name, extensions
  openssl req $new -subj "/CN=$1" -keyout "$1.key" -out "$1.csr" 2>/dev/null
  printf '%b\n' "$2" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 90 -extfile "$1.ext" \
    -out "$1.crt" 2>/dev/null
  rm "$1.csr" "$1.ext"
}
issue tls 'subjectAltName=DNS:tenure-1,DNS:tenure-2,DNS:tenure-3,DNS:localhost\nextendedKeyUsage=serverAuth'
issue operator 'subjectAltName=DNS:operator\nextendedKeyUsage=clientAuth'
cat > rights.json <<'END'
{ "certificates": [{ "san": "DNS:operator", "node": "operator", "admin": true, "groups": ["*"] }] }
END
chmod 644 ca.crt tls.crt rights.json
