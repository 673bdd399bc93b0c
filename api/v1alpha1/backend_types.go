package v1alpha1

// Backend is one OpenAI-compatible server in a chain. It is reached by exactly one of url and service.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.service)",message="Set exactly one of url and service."
// +kubebuilder:validation:XValidation:rule="!has(self.headers) || !has(self.auth) || !has(self.auth.header) || self.headers.all(h, h.name.lowerAscii() != self.auth.header.lowerAscii())",message="headers must not repeat auth.header."
type Backend struct {
	// name is what pins, the X-Prefer-Backend header, metrics and heartbeats call this backend: a DNS label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="A backend's name must be a DNS label: lower-case letters, digits and '-', with a letter or digit at both ends."
	// +required
	Name string `json:"name"`

	// url is the base of the backend's API, such as http://tower.lan:11434/v1. An empty path means /v1; a query is kept.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && self.matches('^[hH][tT][tT][pP][sS]?://[^/?#:][!-~]*$')",message="url must be an absolute http or https URL, such as http://tower.lan:11434/v1."
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/]*//[^/?#]*@')",message="url must not contain a user or a password: use auth."
	// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="url must not contain a fragment."
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/]*//([^/?#@]*@)?[^/?#@\\\\[]*:[^/?#@]*:')",message="An IPv6 address in url must be in brackets, such as http://[fd00::2]:8000/v1."
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^?#]*/(chat/completions|completions|embeddings|responses|messages|models)/*([?#].*)?$')",message="url must be the base of the API, such as http://tower.lan:11434/v1, and must not end in an endpoint such as /chat/completions."
	// +optional
	URL string `json:"url,omitempty"`

	// service is a Service in the namespace of the route.
	// +optional
	Service *ServiceRef `json:"service,omitempty"`

	// model is the physical name that is sent to the backend. Default: spec.model of the route.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Model string `json:"model,omitempty"`

	// regime is a grouping label of your choice that callers see in heartbeats and traces. Usual ones are idle, contended,
	// saturated, hosted and unknown.
	// +kubebuilder:default=unknown
	// +optional
	Regime Regime `json:"regime,omitempty"`

	// capacityGroup says that backends of this namespace with the same group sit on the same hardware: saturation of one opens all.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="capacityGroup must be a label value: letters, digits, '-', '_' and '.', with a letter or digit at both ends."
	// +optional
	CapacityGroup string `json:"capacityGroup,omitempty"`

	// maxInFlight bounds the requests that the whole fleet sends at once. It is approximated from above when there are
	// more proxies than slots. 0 is unlimited.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxInFlight int32 `json:"maxInFlight,omitempty"`

	// contextWindow in tokens: the backend is skipped for a prompt that is surely larger. 0 is unknown.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	ContextWindow int64 `json:"contextWindow,omitempty"`

	// auth is the credential that the proxy shows to this backend. Absent: none. A caller's own never travels.
	// +optional
	Auth *BackendAuth `json:"auth,omitempty"`

	// tls says how an https backend is verified. Absent: against the roots of the proxy's image.
	// +optional
	TLS *BackendTLS `json:"tls,omitempty"`

	// headers are added to each request.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(other, other.name.lowerAscii() == h.name.lowerAscii()))",message="Header names must be unique, whatever their case."
	// +listType=map
	// +listMapKey=name
	// +optional
	Headers []Header `json:"headers,omitempty"`

	// failure overrides fields of the route's failure block for this backend.
	// +optional
	Failure *FailureOverride `json:"failure,omitempty"`

	// saturation overrides fields of the route's saturation block for this backend.
	// +optional
	Saturation *SaturationOverride `json:"saturation,omitempty"`
}

// ServiceRef is a Service in the namespace of the route.
type ServiceRef struct {
	// name of the Service.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// port of the Service.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`

	// scheme is http or https.
	// +kubebuilder:default=http
	// +optional
	Scheme ServiceScheme `json:"scheme,omitempty"`

	// path is the base of the API on that port.
	// +kubebuilder:default=/v1
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[!-~]*$') && !self.matches('[?#]')",message="path must begin with '/' and must not contain a query, a fragment or spaces."
	// +kubebuilder:validation:XValidation:rule="!self.matches('/(chat/completions|completions|embeddings|responses|messages|models)/*$')",message="path must be the base of the API, such as /v1, and must not end in an endpoint such as /chat/completions."
	// +optional
	Path string `json:"path,omitempty"`
}

// BackendAuth is the credential for one backend.
//
// +kubebuilder:validation:XValidation:rule="self.scheme != 'Header' || has(self.header)",message="auth.header is required where auth.scheme is Header."
// +kubebuilder:validation:XValidation:rule="self.scheme == 'Header' || !has(self.header)",message="auth.header is allowed only where auth.scheme is Header."
type BackendAuth struct {
	// secretRef is the key of a Secret in the namespace of the route. A trailing newline of its value is cut.
	// +required
	SecretRef SecretKeyRef `json:"secretRef"`

	// scheme says how the value is sent. Bearer: "Authorization: Bearer <value>". Header: the value alone, in header.
	// +kubebuilder:default=Bearer
	// +optional
	Scheme AuthScheme `json:"scheme,omitempty"`

	// header that carries the value where scheme is Header, such as x-api-key.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-!#$%&*+.^_`|~0-9A-Za-z\\\\x27]+$')",message="auth.header must be a header name: letters, digits and the signs that HTTP allows, without spaces or colons."
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'host', 'content-length', 'content-type', 'content-encoding', 'accept-encoding', 'expect'])",message="auth.header must not be a hop-by-hop header or one that frames the request."
	// +optional
	Header string `json:"header,omitempty"`
}

// SecretKeyRef is one key of a Secret in the same namespace.
type SecretKeyRef struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key in its data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key"`
}

// BackendTLS says how a backend's certificate is verified and what the proxy shows of its own.
type BackendTLS struct {
	// caRef holds the PEM certificates to trust instead of the system's roots.
	// +optional
	CARef *CARef `json:"caRef,omitempty"`

	// serverName replaces the URL's host in SNI and verification.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServerName string `json:"serverName,omitempty"`

	// verify is Full, or None to accept any certificate.
	// +kubebuilder:default=Full
	// +optional
	Verify TLSVerify `json:"verify,omitempty"`

	// clientCertRef is a Secret of type kubernetes.io/tls whose pair the proxy shows to the backend.
	// +optional
	ClientCertRef *SecretRef `json:"clientCertRef,omitempty"`
}

// CARef is one key of a ConfigMap or Secret in the namespace of the route.
type CARef struct {
	// kind is ConfigMap or Secret.
	// +kubebuilder:default=ConfigMap
	// +optional
	Kind CARefKind `json:"kind,omitempty"`

	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key in its data.
	// +kubebuilder:default="ca.crt"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Key string `json:"key,omitempty"`
}

// SecretRef is a Secret in the namespace of the route.
type SecretRef struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// Header is added to each request to a backend.
type Header struct {
	// name of the header. Hop-by-hop headers, Authorization and those that frame the request are refused.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-!#$%&*+.^_`|~0-9A-Za-z\\\\x27]+$')",message="A header's name must consist of letters, digits and the signs that HTTP allows, without spaces or colons."
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'])",message="Hop-by-hop headers cannot be set."
	// +kubebuilder:validation:XValidation:rule="self.lowerAscii() != 'authorization'",message="Authorization cannot be set as a header: use auth, which reads a Secret."
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['host', 'content-length', 'content-type', 'content-encoding', 'accept-encoding', 'expect'])",message="Headers that frame the request (Host, Content-Length, Content-Type, Content-Encoding, Accept-Encoding, Expect) cannot be set."
	// +required
	Name string `json:"name"`

	// value of the header. It is no place for a secret: use auth.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="!self.matches('[\\\\x00-\\\\x08\\\\x0a-\\\\x1f\\\\x7f]')",message="A header's value must not contain control characters."
	// +required
	Value string `json:"value"`
}
