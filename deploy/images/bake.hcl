# The images of a release, each for both architectures, with provenance and an SBOM attached. How to use it is in
# .github/RELEASING.md. Context: the root of the repository.

variable "VERSION" {
  default = "dev"
}

variable "REGISTRY" {
  default = "registry.example.com/switchyard"
}

# The commit that is built.
variable "REVISION" {
  default = ""
}

# The time of the commit in seconds, so that a second build makes the same layers.
variable "SOURCE_DATE_EPOCH" {
  default = "0"
}

group "default" {
  targets = ["service"]
}

target "service" {
  name = service
  matrix = {
    service = ["gateway", "webhook-egress", "notify", "edge"]
  }
  context    = "."
  dockerfile = "services/${service}/Dockerfile"
  platforms  = ["linux/amd64", "linux/arm64"]
  args = {
    VERSION           = VERSION
    SOURCE_DATE_EPOCH = SOURCE_DATE_EPOCH
  }
  tags = ["${REGISTRY}/${service}:${VERSION}"]
  labels = {
    "org.opencontainers.image.title"    = "Switchyard ${service}"
    "org.opencontainers.image.version"  = VERSION
    "org.opencontainers.image.revision" = REVISION
    "org.opencontainers.image.licenses" = "Apache-2.0"
  }
  attest = ["type=provenance,mode=max", "type=sbom"]
}
