"""Sign-in of people: an OAuth authorization server for their programs, which asks an OpenID
provider who they are."""
