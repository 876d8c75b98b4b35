# The certificates of a cluster, and the configuration that makes clients of them.

create_authority() {
    mkdir -p "$state/pki"
    new_key ca
    openssl req -x509 -new -key "$state/pki/ca.key" -subj /CN=weir-test-cluster -days 365 -out "$state/pki/ca.crt" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,digitalSignature
    # For the tokens of service accounts.
    new_key tokens
    openssl pkey -in "$state/pki/tokens.key" -pubout -out "$state/pki/tokens.pub"
}

new_key() { # NAME
    openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$state/pki/$1.key" 2>/dev/null ||
        openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$state/pki/$1.key" 2>/dev/null
}

# One that names both ends of a connection: servers are clients of each other.
create_certificate() { # NAME SUBJECT [ALTERNATIVE_NAMES]
    local file="$state/pki/$1"
    new_key "$1"
    openssl req -new -key "$file.key" -subj "$2" |
        openssl x509 -req -CA "$state/pki/ca.crt" -CAkey "$state/pki/ca.key" -days 365 -out "$file.crt" -extfile <(
            echo "basicConstraints = CA:FALSE"
            echo "keyUsage = digitalSignature"
            echo "extendedKeyUsage = serverAuth, clientAuth"
            [[ -z ${3:-} ]] || echo "subjectAltName = $3"
        ) 2>/dev/null
}

# Everything is in the file, so that it can be copied.
create_kubeconfig() { # CERTIFICATE FILE
    cat >"$2" <<END
apiVersion: v1
kind: Config
current-context: weir-test
contexts: [{name: weir-test, context: {cluster: weir-test, user: $1}}]
clusters:
- name: weir-test
  cluster:
    server: https://$api_address:$api_port
    certificate-authority-data: $(base64 -w 0 "$state/pki/ca.crt")
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w 0 "$state/pki/$1.crt")
    client-key-data: $(base64 -w 0 "$state/pki/$1.key")
END
}
