package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"

	"switchyard.dev/services/edge/internal/apikey"
)

// none removes a term.
const none = "none"

// termFlags adds the flags of terms.
func termFlags(flags *flag.FlagSet, t *apikey.Terms) {
	flags.Func("tpm", "tokens per minute and model", func(text string) (err error) {
		if t.TokensPerMinute = 0; text == none {
			return nil
		}
		if t.TokensPerMinute, err = strconv.ParseInt(text, 10, 64); err != nil || t.TokensPerMinute == 0 {
			return apikey.ErrTokensPerMinute
		}
		return nil
	})
	flags.Func("model", "model that the key may use; repeatable", func(name string) error {
		t.Models = append(t.Models, name)
		return nil
	})
	flags.Func("budget", "ceiling in cents and its period, such as 5000/month", func(text string) (err error) {
		if t.Budget = (apikey.Budget{}); text == none {
			return nil
		}
		t.Budget, err = apikey.ParseBudget(text)
		return err
	})
	flags.Func("class", "priority: interactive, standard or bulk", func(text string) error {
		if t.Class = apikey.Class(text); text == none {
			t.Class = ""
		}
		return nil
	})
}

// setTerms changes the terms that the flags name.
func setTerms(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error {
	var t apikey.Terms
	flags := flagSet("terms")
	termFlags(flags, &t)
	flags.Bool("all-models", false, "the key may use all models")
	if err := parse(flags, args, 1); err != nil {
		return err
	}
	u, err := named(flags, &t)
	if err != nil {
		return err
	}
	key, err := manager.Update(ctx, by, flags.Arg(0), u)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "terms of", key.ID, key.Terms)
	return err
}

// named returns an update of the terms whose flags were given.
func named(flags *flag.FlagSet, t *apikey.Terms) (u apikey.Update, err error) {
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "tpm":
			u.TokensPerMinute = &t.TokensPerMinute
		case "model", "all-models":
			if u.Models != nil {
				err = errors.New("use --model or --all-models, not both")
			}
			u.Models = &t.Models
		case "budget":
			u.Budget = &t.Budget
		case "class":
			u.Class = &t.Class
		}
	})
	if u == (apikey.Update{}) {
		return u, errKeysUsage
	}
	return u, err
}
