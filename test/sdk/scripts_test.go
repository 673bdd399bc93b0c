package sdk

import "net/http"

// The scripts that scenarios are put together from.

// whole answers with one body.
func whole(c *call) { c.answer(http.StatusOK, c.dialect.body) }

func wholeTools(c *call) { c.answer(http.StatusOK, c.dialect.toolBody) }

// streams streams the text at once.
func streams(c *call) { c.stream(c.dialect.text, c.dialect.finish, 0) }

// streamsSlowly streams the text with a heartbeat in every place where one can be.
func streamsSlowly(c *call) { c.stream(c.dialect.text, c.dialect.finish, 1) }

func streamsToolsSlowly(c *call) { c.stream(c.dialect.tools, c.dialect.called, 1) }

// streamsWithoutDone ends with the finish reason.
func streamsWithoutDone(c *call) {
	c.open()
	c.send(c.dialect.prelude...)
	c.send(c.dialect.text...)
	c.send(c.dialect.finish...)
}

// stream sends a whole stream, with so many heartbeats before the headers, before and after the first token, within an
// event, before the finish and before the end.
func (c *call) stream(tokens, finish []string, beats int) {
	c.beats(beats)
	c.open()
	c.send(c.dialect.prelude...)
	c.beats(beats)
	c.send(tokens[0])
	c.beats(beats)
	half := len(tokens[1]) / 2
	c.send(tokens[1][:half])
	c.beats(beats)
	c.send(tokens[1][half:])
	c.send(tokens[2:]...)
	c.beats(beats)
	c.send(finish[0])
	c.beats(beats)
	c.send(finish[1:]...)
	c.send(c.dialect.done)
}

// goesSilent sends what comes before the first token and no more.
func goesSilent(c *call) {
	c.open()
	c.send(c.dialect.prelude...)
	c.silence()
}

// dropsEarly ends before the first token.
func dropsEarly(c *call) {
	c.open()
	c.send(c.dialect.prelude...)
	c.cut()
}

// dropsLate ends after the text, without a finish reason.
func dropsLate(c *call) {
	c.textSlowly()
	c.cut()
}

// endsLate ends its stream in good order, but without a finish reason.
func endsLate(c *call) { c.textSlowly() }

// stops goes silent after the text.
func stops(c *call) {
	c.textSlowly()
	c.silence()
}

// crashes puts an error into its stream after the text.
func crashes(c *call) {
	c.textSlowly()
	c.send(c.dialect.errorEvent)
}

// crashesEarly puts an error into its stream before the first token.
func crashesEarly(c *call) {
	c.open()
	c.send(c.dialect.prelude...)
	c.send(c.dialect.errorEvent)
}

// failsEarly and failsLate end a response with its own word for that, before and behind the text.
func failsEarly(c *call) {
	c.open()
	c.send(c.dialect.prelude...)
	c.send(responseFailed)
}

func failsLate(c *call) {
	c.textSlowly()
	c.send(responseFailed)
}

// textSlowly streams the text without a finish, with a heartbeat at its end.
func (c *call) textSlowly() {
	c.open()
	c.send(c.dialect.prelude...)
	c.send(c.dialect.text...)
	c.beats(1)
}

// rejects answers every request with a status and words of its own.
func rejects(status int, header ...string) script {
	return func(c *call) { c.answer(status, c.dialect.errorBody(status, rejectionTold), header...) }
}

// rejectionTold is what a backend says about a request that it rejects.
const rejectionTold = "This backend cannot do that."

// rejectsLate is rejects after the status line has been committed by a heartbeat.
func rejectsLate(status int) script {
	return func(c *call) {
		c.beats(1)
		rejects(status)(c)
	}
}

// busyOnce rejects the first request, then does what next does.
func busyOnce(next script) script {
	return func(c *call) {
		if c.n == 0 {
			rejects(http.StatusTooManyRequests, "Retry-After", "1")(c)
			return
		}
		next(c)
	}
}
